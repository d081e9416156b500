{{- /*
Node sets and login sets: a mapping by name, or (as older values have it) a list of entries with a name.
Gives back a YAML mapping of those that are enabled, laid over their defaults.
Takes (dict "root" $ "given" (dict path value ...) "defaults" values "container" "slurmd").
*/ -}}
{{- define "slurm.sets" -}}
{{- $args := . -}}
{{- $sets := dict -}}
{{- range $path, $given := .given -}}
  {{- $entries := dict -}}
  {{- if kindIs "slice" $given -}}
    {{- range $index, $entry := $given -}}
      {{- $name := required (printf "%s[%d].name is missing: each entry of a list needs a name" $path $index) $entry.name -}}
      {{- if hasKey $entries $name }}{{ fail (printf "%s names %q twice" $path $name) }}{{ end -}}
      {{- $_ := set $entries $name (omit $entry "name") -}}
    {{- end -}}
  {{- else -}}
    {{- $entries = $given | default dict -}}
  {{- end -}}
  {{- range $name, $entry := $entries -}}
    {{- if hasKey $sets $name }}{{ fail (printf "%s.%s is also given under another spelling of %s: keep one" $path $name $path) }}{{ end -}}
    {{- $_ := set $sets $name (fromYaml (include "slurm.set" (dict "args" $args "entry" ($entry | default dict)))) -}}
  {{- end -}}
{{- end -}}
{{- $enabled := dict -}}
{{- range $name, $set := $sets }}{{ if $set.enabled }}{{ $_ := set $enabled $name $set }}{{ end }}{{ end -}}
{{- toYaml $enabled -}}
{{- end -}}

{{- /* One entry over the defaults; what belongs to the container may stand beside it, as older values have it. */ -}}
{{- define "slurm.set" -}}
{{- $key := .args.container -}}
{{- $entry := deepCopy .entry -}}
{{- $container := deepCopy (get $entry $key | default dict) -}}
{{- range list "image" "imagePullPolicy" "securityContext" "resources" "env" "envFrom" "volumeMounts" "args" -}}
  {{- if and (hasKey $entry .) (not (hasKey $container .)) }}{{ $_ := set $container . (get $entry .) }}{{ end -}}
  {{- $_ := unset $entry . -}}
{{- end -}}
{{- $_ := set $entry $key $container -}}
{{- $defaults := deepCopy .args.defaults -}}
{{- range $part := list $key "logfile" "initconf" -}}
  {{- $given := get $entry $part | default dict -}}
  {{- /* A string replaces the parts of a default image. */ -}}
  {{- if and (kindIs "string" $given.image) (hasKey $defaults $part) }}{{ $_ := unset (get $defaults $part) "image" }}{{ end -}}
{{- end -}}
{{- toYaml (mustMergeOverwrite $defaults $entry) -}}
{{- end -}}

{{- define "slurm.nodesets" -}}
{{- $given := dict "nodesets" .Values.nodesets "nodeSets" .Values.nodeSets -}}
{{- $sets := include "slurm.sets" (dict "root" . "given" $given "defaults" .Values.nodesetDefaults "container" "slurmd") | fromYaml -}}
{{- range $name, $set := $sets }}{{ $_ := set $sets $name (include "slurm.vendor.nodeset" (dict "root" $ "name" $name "set" $set) | fromYaml) }}{{ end -}}
{{- toYaml $sets -}}
{{- end -}}

{{- define "slurm.loginsets" -}}
{{- $given := dict "loginsets" .Values.loginsets "loginSets" .Values.loginSets -}}
{{- include "slurm.sets" (dict "root" . "given" $given "defaults" .Values.loginsetDefaults "container" "login") -}}
{{- end -}}

{{- /* Whether some pod runs sssd with the file that this chart makes. */ -}}
{{- define "slurm.needsSssd" -}}
{{- $needed := not (empty (include "slurm.loginsets" . | fromYaml)) -}}
{{- range $name, $set := include "slurm.nodesets" . | fromYaml }}{{ if and $set.ssh $set.ssh.enabled }}{{ $needed = true }}{{ end }}{{ end -}}
{{- if $needed }}true{{ end -}}
{{- end -}}
