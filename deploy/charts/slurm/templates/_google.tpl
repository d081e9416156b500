{{- /*
Google Cloud's A3 machines: eight GPUs, and one network of its own for each beside the pod's. Each gives back YAML, in
the form of a node set's values.
*/ -}}

{{- /* The interfaces of a pod: (dict "networks" list "first" number of the first interface after eth0). */ -}}
{{- define "slurm.google.interfaces" -}}
{{- $interfaces := list -}}
{{- range $index, $network := .networks -}}
  {{- $number := ternary 0 (add $index $.first -1) (eq $index 0) -}}
  {{- $interfaces = append $interfaces (dict "interfaceName" (printf "eth%d" (int $number)) "network" $network) -}}
{{- end -}}
{{- toJson $interfaces -}}
{{- end -}}

{{- define "slurm.google.a3mega" -}}
slurmd:
  env:
  - {name: LD_LIBRARY_PATH, value: /usr/local/nvidia/lib64}
  - {name: NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY, value: /dev/aperture_devices}
  volumeMounts:
  - {name: aperture-devices, mountPath: /dev/aperture_devices}
metadata:
  annotations:
    devices.gke.io/container.tcpxo-daemon: |
      {{- range until 8 }}
      - path: /dev/nvidia{{ . }}
      {{- end }}
      - path: /dev/nvidiactl
      - path: /dev/nvidia-uvm
      - path: /dev/dmabuf_import_helper
podSpec:
  containers:
  - name: tcpxo-daemon
    image: us-docker.pkg.dev/gce-ai-infra/gpudirect-tcpxo/tcpgpudmarxd-dev:v1.0.21
    imagePullPolicy: Always
    command: [/bin/sh, -c]
    args:
    - |
      set -ex
      chmod 755 /fts/entrypoint_rxdm_container.sh
      /fts/entrypoint_rxdm_container.sh --num_hops=2 --num_nics=8 --uid= --alsologtostderr
    securityContext:
      capabilities:
        add: [NET_ADMIN, NET_BIND_SERVICE]
    env:
    - {name: LD_LIBRARY_PATH, value: /usr/local/nvidia/lib64}
    volumeMounts:
    - {name: libraries, mountPath: /usr/local/nvidia/lib64}
    - {name: sys, mountPath: /hostsysfs}
    - {name: proc-sys, mountPath: /hostprocsysfs}
  volumes:
  - {name: libraries, hostPath: {path: /home/kubernetes/bin/nvidia/lib64}}
  - {name: sys, hostPath: {path: /sys}}
  - {name: proc-sys, hostPath: {path: /proc/sys}}
  - {name: aperture-devices, hostPath: {path: /dev/aperture_devices}}
{{- end -}}

{{- define "slurm.google.a3ultra" -}}
slurmd:
  env:
  - {name: LD_LIBRARY_PATH, value: /usr/local/nvidia/lib64}
  - {name: PATH, value: "/usr/local/nvidia/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
  volumeMounts:
  - {name: library-dir-host, mountPath: /usr/local/nvidia}
  - {name: gib, mountPath: /usr/local/gib}
podSpec:
  volumes:
  - {name: library-dir-host, hostPath: {path: /home/kubernetes/bin/nvidia}}
  - {name: gib, hostPath: {path: /home/kubernetes/bin/gib}}
  - {name: sys, hostPath: {path: /sys}}
  - {name: proc-sys, hostPath: {path: /proc/sys}}
{{- end -}}

{{- /* What a node set on such machines needs: (dict "root" $ "name" name); empty for every other one. */ -}}
{{- define "slurm.google.needs" -}}
{{- $args := . -}}
{{- $gpus := dict "a3mega" "gpu:nvidia_h100_80gb_hbm3:8" "a3ultra" "gpu:nvidia_h200:8" -}}
{{- /* GKE has a second ordinary interface on A3 Ultra, so its others begin at eth2. */ -}}
{{- $firsts := dict "a3mega" 1 "a3ultra" 2 -}}
{{- range $machine := list "a3mega" "a3ultra" -}}
  {{- range $index, $pool := get $args.root.Values.vendor.google $machine -}}
    {{- if eq ($pool.targetNodeSet | default "") $args.name -}}
      {{- $path := printf "vendor.google.%s[%d]" $machine $index -}}
      {{- $networks := $pool.networks | default list -}}
      {{- if ne (len $networks) 9 }}{{ fail (printf "%s.networks has %d entries, but must have 9: the pod's own network, and one for each GPU" $path (len $networks)) }}{{ end -}}
      {{- $needs := include (printf "slurm.google.%s" $machine) $args.root | fromYaml -}}
      {{- $interfaces := include "slurm.google.interfaces" (dict "networks" $networks "first" (get $firsts $machine)) -}}
      {{- $common := dict
        "slurmd" (dict "resources" (dict "requests" (dict "nvidia.com/gpu" 8) "limits" (dict "nvidia.com/gpu" 8)))
        "extraConfMap" (dict "Gres" (get $gpus $machine))
        "metadata" (dict "annotations" (dict "networking.gke.io/default-interface" "eth0" "networking.gke.io/interfaces" $interfaces)) -}}
      {{- if $pool.nodePool }}{{ $_ := set $common "podSpec" (dict "nodeSelector" (dict "cloud.google.com/gke-nodepool" $pool.nodePool)) }}{{ end -}}
      {{- toYaml (mustMergeOverwrite $needs $common) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- end -}}

{{- /* The ConfigMap with gres.conf, unless there is such a file already: its name, or nothing. */ -}}
{{- define "slurm.google.config" -}}
{{- $google := .Values.vendor.google -}}
{{- if not (hasKey (.Values.configFiles | default dict) "gres.conf") -}}
  {{- if $google.a3mega -}}
{{- printf "%s-config-a3mega" (include "slurm.fullname" .) -}}
  {{- else if $google.a3ultra -}}
{{- printf "%s-config-a3ultra" (include "slurm.fullname" .) -}}
  {{- end -}}
{{- end -}}
{{- end -}}
