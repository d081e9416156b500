{{- /*
The pods of a component, which run in the restricted profile:
(dict "root" $ "component" c "args" list "ports" list of {name, containerPort} "volumes" list "mounts" list).
*/ -}}
{{- define "operator.podSpec" -}}
{{- $values := get .root.Values .component -}}
{{- $pod := dict "runAsNonRoot" true "runAsUser" 65532 "runAsGroup" 65532 "fsGroup" 65532 "seccompProfile" (dict "type" "RuntimeDefault") -}}
{{- $container := dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true "runAsNonRoot" true "capabilities" (dict "drop" (list "ALL")) "seccompProfile" (dict "type" "RuntimeDefault") -}}
{{- $image := include "operator.imageValues" . | fromYaml -}}
serviceAccountName: {{ include "operator.account" . }}
enableServiceLinks: false
{{- with .root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
{{- range . }}
- name: {{ kindIs "string" . | ternary . (. | toYaml | fromYaml).name }}
{{- end }}
{{- end }}
securityContext:
  {{- toYaml (mustMergeOverwrite $pod (deepCopy ($values.podSecurityContext | default dict))) | nindent 2 }}
containers:
- name: {{ eq .component "webhook" | ternary "webhook" "slurm-operator" }}
  image: {{ include "operator.image" (dict "root" .root "image" $image.image) }}
  imagePullPolicy: {{ $values.imagePullPolicy | default .root.Values.imagePullPolicy }}
  command:
  - slurm-operator
  args:
  {{- toYaml (concat .args ($values.extraArgs | default list)) | nindent 2 }}
  env:
  # The whole of Python's bytecode is in the image; nothing is written.
  - name: PYTHONDONTWRITEBYTECODE
    value: "1"
  ports:
  {{- toYaml .ports | nindent 2 }}
  livenessProbe:
    httpGet:
      path: /healthz
      port: health
    initialDelaySeconds: 15
    periodSeconds: 20
  readinessProbe:
    httpGet:
      path: /readyz
      port: health
    initialDelaySeconds: 2
    periodSeconds: 5
  {{- with $values.resources }}
  resources:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    {{- toYaml (mustMergeOverwrite $container (deepCopy ($values.securityContext | default dict))) | nindent 4 }}
  volumeMounts:
  - name: tmp
    mountPath: /tmp
  {{- with .mounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
volumes:
- name: tmp
  emptyDir:
    medium: Memory
    sizeLimit: 16Mi
{{- with .volumes }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- range list "nodeSelector" "affinity" "tolerations" "topologySpreadConstraints" }}
{{- $given := get $values . }}
{{- if $given }}
{{ . }}:
  {{- toYaml $given | nindent 2 }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* A PodDisruptionBudget, where it makes sense: (dict "root" $ "component" c "name" n). */ -}}
{{- define "operator.budget" -}}
{{- $values := get .root.Values .component -}}
{{- if and $values.pdb.enabled (gt (int $values.replicas) 1) }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "operator.metadata" . | nindent 2 }}
spec:
  {{- if not (kindIs "invalid" $values.pdb.maxUnavailable) }}
  maxUnavailable: {{ $values.pdb.maxUnavailable }}
  {{- else }}
  minAvailable: {{ $values.pdb.minAvailable }}
  {{- end }}
  selector:
    matchLabels:
      {{- include "operator.selector" . | nindent 6 }}
{{- end }}
{{- end -}}
