{{/*
The manifests in files/ are those of kustomize (deploy/base, site, overlays, monitoring).
The templates read them and set what the values change, so that both installations have
the same objects.
*/}}

{{- define "kube-vmap.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The ConfigMap's files. Without changes, config.conf keeps its comments. */}}
{{- define "kube-vmap.config" -}}
{{- $server := required "apiServer is not set: kube-vmap cannot reach the API server through the Service \"kubernetes\", which it programs itself. Set an address that nodes reach without a Service proxy: --set apiServer=https://10.0.0.1:6443 (docs/install has it for each distribution)" .Values.apiServer -}}
{{- $config := .Files.Get "files/site/config.conf" -}}
{{- if .Values.config -}}
{{- $config = mergeOverwrite (fromYaml $config) .Values.config | toYaml -}}
{{- end -}}
{{- $kubeconfig := .Files.Get "files/site/kubeconfig.conf" | replace "https://api-server-address-is-not-set.invalid:6443" $server -}}
{{- dict "config.conf" $config "kubeconfig.conf" $kubeconfig | toJson -}}
{{- end -}}

{{/*
The ConfigMap's name, with the same hash as kustomize gives it: a changed configuration
changes the DaemonSet, so that it is rolled out node by node.
*/}}
{{- define "kube-vmap.configName" -}}
{{- $hash := dict "kind" "ConfigMap" "name" "" "data" (include "kube-vmap.config" . | fromJson) | toJson | sha256sum | trunc 10 -}}
kube-vmap-{{ $hash | replace "0" "g" | replace "1" "h" | replace "3" "k" | replace "a" "m" | replace "e" "t" }}
{{- end -}}

{{/* The port of an address, or the default: "0.0.0.0:10256" 10256. */}}
{{- define "kube-vmap.port" -}}
{{- $address := index . 0 | default "" -}}
{{- if regexMatch "^([^:]*|\\[.*]):[0-9]+$" $address -}}
{{ regexFind "[0-9]+$" $address }}
{{- else -}}
{{ index . 1 }}
{{- end -}}
{{- end -}}

{{/* The host of an address if it is loopback, where only the node itself gets an answer. */}}
{{- define "kube-vmap.loopback" -}}
{{- regexReplaceAll "^\\[?(127\\.[0-9.]+|::1|localhost)?\\]?(:[0-9]+)?.*$" (. | default "") "${1}" -}}
{{- end -}}
