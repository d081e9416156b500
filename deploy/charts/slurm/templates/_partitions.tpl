{{- /*
Options of a partition line, made into fields of a Partition: (dict "text" t "map" m). What has no field of its own, or a
value that the field does not take, stays in `config`. A text with quotes is left whole: its words may hold blanks.
*/ -}}
{{- define "slurm.partitionOptions" -}}
{{- $texts := dict "maxtime" "maxTime" "defaulttime" "defaultTime" "maxnodes" "maxNodes" "oversubscribe" "overSubscribe" "qos" "qos" -}}
{{- $words := dict "state" "state" "preemptmode" "preemptMode" -}}
{{- $numbers := dict "minnodes" "minNodes" "prioritytier" "priorityTier" "priorityjobfactor" "priorityJobFactor" "gracetime" "graceTime" "defmempercpu" "defMemPerCPU" "maxmempercpu" "maxMemPerCPU" "defmempernode" "defMemPerNode" "maxmempernode" "maxMemPerNode" -}}
{{- $lists := dict "allowaccounts" "allowAccounts" "denyaccounts" "denyAccounts" "allowgroups" "allowGroups" "allowqos" "allowQos" "denyqos" "denyQos" -}}
{{- $flags := dict "default" "default" "hidden" "hidden" "rootonly" "rootOnly" "exclusiveuser" "exclusiveUser" "lln" "lln" -}}
{{- $fields := dict -}}
{{- $rest := list -}}
{{- $options := include "slurm.options" (dict "text" .text "map" .map "between" " ") -}}
{{- if contains "\"" $options -}}
  {{- $rest = list $options -}}
{{- else -}}
  {{- range $word := regexSplit "\\s+" (trim $options) -1 -}}
    {{- $key := index (splitList "=" $word) 0 -}}
    {{- $value := trimPrefix (printf "%s=" $key) $word -}}
    {{- $key = lower $key -}}
    {{- if and (hasKey $texts $key) (ne $value "") -}}
      {{- $_ := set $fields (get $texts $key) $value -}}
    {{- else if hasKey $words $key -}}
      {{- $_ := set $fields (get $words $key) (upper $value) -}}
    {{- else if and (hasKey $numbers $key) (regexMatch "^[0-9]{1,9}$" $value) -}}
      {{- $_ := set $fields (get $numbers $key) (atoi $value) -}}
    {{- else if and (hasKey $lists $key) (ne $value "") -}}
      {{- $_ := set $fields (get $lists $key) (splitList "," $value) -}}
    {{- else if and (hasKey $flags $key) (has (upper $value) (list "YES" "NO")) -}}
      {{- $_ := set $fields (get $flags $key) (eq (upper $value) "YES") -}}
    {{- else if ne $word "" -}}
      {{- $rest = append $rest $word -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- if $rest }}{{ $_ := set $fields "config" (join " " $rest) }}{{ end -}}
{{- toYaml $fields -}}
{{- end -}}

{{- /* The NodeSets that a partition names: (dict "root" $ "name" name "partition" values). */ -}}
{{- define "slurm.partitionNodeSets" -}}
{{- $path := printf "partitions.%s.nodesets" .name -}}
{{- $given := .partition.nodesets | default .partition.nodeSets -}}
{{- if and (not $given) (not .partition.nodes) }}{{ fail (printf "%s is empty: name node sets of this chart, or ALL" $path) }}{{ end -}}
{{- $known := include "slurm.nodesets" .root | fromYaml -}}
{{- $names := list -}}
{{- range $given -}}
  {{- if eq . "ALL" -}}
    {{- $names = append $names "ALL" -}}
  {{- else if hasKey $known . -}}
    {{- $names = append $names (printf "%s-worker-%s" (include "slurm.fullname" $.root) .) -}}
  {{- else -}}
    {{- fail (printf "%s names %q, but nodesets has no enabled entry of that name (it has: %s)" $path . (keys $known | sortAlpha | join ", " | default "none")) -}}
  {{- end -}}
{{- end -}}
{{- toYaml ($names | uniq) -}}
{{- end -}}
