{{- /*
Forms that values come in, made into the form that a resource wants. Each gives back YAML, to be read with fromYaml.
*/ -}}

{{- /* A mapping without nulls, empty mappings and empty lists. Lists and strings are left as they are. */ -}}
{{- define "slurm.pruned" -}}
{{- $kept := dict -}}
{{- range $key, $value := . -}}
  {{- if kindIs "map" $value -}}
    {{- $inner := fromYaml (include "slurm.pruned" $value) -}}
    {{- if $inner }}{{ $_ := set $kept $key $inner }}{{ end -}}
  {{- else if kindIs "slice" $value -}}
    {{- if $value }}{{ $_ := set $kept $key $value }}{{ end -}}
  {{- else if not (kindIs "invalid" $value) -}}
    {{- $_ := set $kept $key $value -}}
  {{- end -}}
{{- end -}}
{{- toYaml $kept -}}
{{- end -}}

{{- /* An image as one string; it may be written as a string or as {repository, tag, digest}. */ -}}
{{- define "slurm.image" -}}
{{- if kindIs "string" . -}}
{{- . -}}
{{- else if and . .repository -}}
  {{- if .digest -}}
{{- printf "%s@%s" .repository .digest -}}
  {{- else if not (kindIs "invalid" .tag) -}}
{{- printf "%s:%s" .repository (toString .tag) -}}
  {{- else -}}
{{- .repository -}}
  {{- end -}}
{{- end -}}
{{- end -}}

{{- /* A container: (dict "root" $ "container" values). */ -}}
{{- define "slurm.container" -}}
{{- $container := deepCopy (.container | default dict) -}}
{{- $image := include "slurm.image" $container.image -}}
{{- $_ := unset $container "image" -}}
{{- if $image }}{{ $_ := set $container "image" $image }}{{ end -}}
{{- $policy := $container.imagePullPolicy | default .root.Values.imagePullPolicy -}}
{{- if $policy }}{{ $_ := set $container "imagePullPolicy" $policy }}{{ end -}}
{{- include "slurm.pruned" $container -}}
{{- end -}}

{{- /*
A helper beside a daemon, which runs the daemon's image unless another is named. Of an image of which only the tag or the
digest is given, the repository is the one that the Go project's charts have there.
*/ -}}
{{- define "slurm.helper" -}}
{{- $container := deepCopy (.container | default dict) -}}
{{- $image := $container.image -}}
{{- if and (kindIs "map" $image) (not $image.repository) (or $image.tag $image.digest) -}}
  {{- $_ := set $container "image" (merge (dict "repository" "docker.io/library/alpine") $image) -}}
{{- end -}}
{{- include "slurm.container" (dict "root" .root "container" $container) -}}
{{- end -}}

{{- /* A pod template: (dict "root" $ "values" values), of which metadata and podSpec are taken. */ -}}
{{- define "slurm.template" -}}
{{- $values := .root.Values -}}
{{- $spec := deepCopy (.values.podSpec | default dict) -}}
{{- $secrets := concat ($values.imagePullSecrets | default list) ($spec.imagePullSecrets | default list) -}}
{{- $named := list -}}
{{- range $secrets }}{{ $named = append $named (ternary (dict "name" .) . (kindIs "string" .)) }}{{ end -}}
{{- $_ := set $spec "imagePullSecrets" ($named | uniq) -}}
{{- if and $values.priorityClass.enabled (not $spec.priorityClassName) -}}
  {{- $_ := set $spec "priorityClassName" $values.priorityClass.name -}}
{{- end -}}
{{- include "slurm.pruned" (dict "metadata" (.values.metadata | default dict) "spec" $spec) -}}
{{- end -}}

{{- /* A value of a configuration file: a list is joined by commas, yes and no are as Slurm writes them. */ -}}
{{- define "slurm.word" -}}
{{- if kindIs "slice" . -}}
  {{- $words := list -}}
  {{- range . }}{{ $words = append $words (include "slurm.word" .) }}{{ end -}}
  {{- join "," $words -}}
{{- else if kindIs "bool" . -}}
  {{- ternary "YES" "NO" . -}}
{{- else if kindIs "float64" . -}}
  {{- if eq (float64 (int64 .)) . }}{{ int64 . }}{{ else }}{{ . }}{{ end -}}
{{- else -}}
  {{- toString . -}}
{{- end -}}
{{- end -}}

{{- /* Options out of a text, or else out of a mapping: (dict "text" t "map" m "between" "\n"). */ -}}
{{- define "slurm.options" -}}
{{- if .text -}}
{{- .text -}}
{{- else -}}
  {{- $options := list -}}
  {{- range $key, $value := .map | default dict -}}
    {{- if not (kindIs "invalid" $value) -}}
      {{- $options = append $options (printf "%s=%s" $key (include "slurm.word" $value)) -}}
    {{- end -}}
  {{- end -}}
  {{- join .between $options -}}
{{- end -}}
{{- end -}}

{{- /* Where a daemon outside Kubernetes listens: (dict "values" externalConfig "port" default "what" path). */ -}}
{{- define "slurm.external" -}}
{{- $values := .values | default dict -}}
host: {{ required (printf "%s.host is needed, since %s.external is true: name the host that the daemon runs on" .what (trimSuffix ".externalConfig" .what)) $values.host }}
port: {{ $values.port | default .port | int }}
{{- end -}}
