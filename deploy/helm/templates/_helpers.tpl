{{/*
The manifests in files/ are those of kustomize. The templates read them and set what the values
change, and the labels of the release, so both installations have the same objects.
*/}}

{{/* A name with nameOverride in place of kube-vmap. The scaler knows its objects by their names. */}}
{{- define "kube-vmap.name" -}}
{{- if eq (index . 1) "kube-vmap-scaler" -}}
kube-vmap-scaler
{{- else -}}
{{- regexReplaceAllLiteral "^kube-vmap\\b" (index . 1) ((index . 0).Values.nameOverride | default (printf "kube-vmap-%s" (index . 0).Values.serviceProxyName | trimSuffix "-")) -}}
{{- end -}}
{{- end -}}

{{/* The labels that all objects have, in addition to app.kubernetes.io/name. */}}
{{- define "kube-vmap.labels" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/instance: {{ $root.Release.Name | quote }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service | quote }}
app.kubernetes.io/component: {{ index . 1 }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | quote }}
{{- end -}}

{{/* An object of a manifest, as (list $ object component): its names, namespace and labels. */}}
{{- define "kube-vmap.object" -}}
{{- $root := index . 0 -}}
{{- $object := index . 1 -}}
{{- $metadata := $object.metadata -}}
{{- $_ := set $metadata "name" (include "kube-vmap.name" (list $root $metadata.name)) -}}
{{- $_ := set $metadata "labels" (merge $metadata.labels (include "kube-vmap.labels" (list $root (index . 2)) | fromYaml)) -}}
{{- if $metadata.namespace -}}
{{- $_ := set $metadata "namespace" $root.Release.Namespace -}}
{{- end -}}
{{- range concat (list $object.roleRef) ($object.subjects | default list) -}}
{{- if and . (ne .kind "Group") -}}
{{- $_ := set . "name" (include "kube-vmap.name" (list $root .name)) -}}
{{- if .namespace }}{{ $_ := set . "namespace" $root.Release.Namespace }}{{ end -}}
{{- end -}}
{{- end -}}
{{- if has $object.kind (list "DaemonSet" "Deployment") -}}
{{- $_ := include "kube-vmap.pod" (list $root $object.spec.template) -}}
{{- end -}}
{{ include "kube-vmap.named" (list $root (toYaml $object)) }}
{{- end -}}

{{/* Text with labels of the second proxy, if it is one, as (list $ text). */}}
{{- define "kube-vmap.named" -}}
{{- $text := index . 1 -}}
{{- with (index . 0).Values.serviceProxyName -}}
{{- $text = regexReplaceAll "(kubernetes.io/name: kube-vmap[-a-z]*|kube-vmap.io/proxy)" $text (printf "${1}.%s" .) -}}
{{- end -}}
{{ $text }}
{{- end -}}

{{/* Sets what all pods have in common, as (list $ template). */}}
{{- define "kube-vmap.pod" -}}
{{- $root := index . 0 -}}
{{- $values := $root.Values -}}
{{- $template := index . 1 -}}
{{- $pod := $template.spec -}}
{{- $_ := set $template.metadata "labels" (merge $template.metadata.labels $values.podLabels) -}}
{{- with $values.podAnnotations }}{{ $_ := set $template.metadata "annotations" . }}{{ end -}}
{{- with $pod.serviceAccountName }}{{ $_ := set $pod "serviceAccountName" (include "kube-vmap.name" (list $root .)) }}{{ end -}}
{{- if eq ($pod.priorityClassName | default "") "system-node-critical" }}{{ $_ := set $pod "priorityClassName" $values.priorityClassName }}{{ end -}}
{{- range $values.image.pullSecrets -}}
{{- $_ := set $pod "imagePullSecrets" (append ($pod.imagePullSecrets | default list) (dict "name" .)) -}}
{{- end -}}
{{- range $container := concat ($pod.initContainers | default list) $pod.containers -}}
{{- if hasPrefix "localhost/kube-vmap:" .image -}}
{{- $_ := set . "image" (include "kube-vmap.image" (list $root $values.image)) -}}
{{- $_ := set . "imagePullPolicy" $values.image.pullPolicy -}}
{{- with $values.serviceProxyName }}{{ $_ := set $container "args" (append $container.args (printf "--service-proxy-name=%s" .)) }}{{ end -}}
{{- if $values.extraEnv }}{{ $_ := set . "env" (concat (.env | default list) $values.extraEnv) }}{{ end -}}
{{- else if hasPrefix "localhost/kube-vmap-scaler:" .image -}}
{{- $_ := set . "image" (include "kube-vmap.image" (list $root $values.scaler.image)) -}}
{{- $_ := set . "imagePullPolicy" $values.image.pullPolicy -}}
{{- else if contains "/pause:" .image -}}
{{- $_ := set . "image" $values.pauseImage -}}
{{- else -}}
{{- $_ := set . "image" $values.readiness.kubectlImage -}}
{{- end -}}
{{- end -}}
{{- range $pod.volumes -}}
{{- with .configMap }}{{ $_ := set . "name" (include "kube-vmap.configName" $root) }}{{ end -}}
{{- end -}}
{{- end -}}

{{/* Restricts pods to some nodes, as (list $ pod). */}}
{{- define "kube-vmap.nodes" -}}
{{- $pod := index . 1 -}}
{{- $_ := set $pod "tolerations" (index . 0).Values.tolerations -}}
{{- $_ := set $pod "nodeSelector" (merge $pod.nodeSelector (index . 0).Values.nodeSelector) -}}
{{- end -}}

{{/*
Adds the value affinity to that of a pod, as (list affinity value). Node selector terms are
alternatives, so each of them gets the expression by which nodes are chosen.
*/}}
{{- define "kube-vmap.affinity" -}}
{{- $own := index . 0 -}}
{{- $value := index . 1 | deepCopy -}}
{{- $required := "requiredDuringSchedulingIgnoredDuringExecution" -}}
{{- with $value.nodeAffinity -}}
{{- with get . $required -}}
{{- $expressions := (first (get $own.nodeAffinity $required).nodeSelectorTerms).matchExpressions -}}
{{- range .nodeSelectorTerms -}}
{{- $_ := set . "matchExpressions" (concat $expressions (.matchExpressions | default list)) -}}
{{- end -}}
{{- $_ := set $own.nodeAffinity $required . -}}
{{- end -}}
{{- end -}}
{{- with $value.podAntiAffinity -}}
{{- with get . $required -}}
{{- $_ := set $own.podAntiAffinity $required (concat (get $own.podAntiAffinity $required) .) -}}
{{- end -}}
{{- end -}}
{{- $_ := merge $own $value -}}
{{- end -}}

{{/* An image of the release, as (list $ value). */}}
{{- define "kube-vmap.image" -}}
{{- $root := index . 0 -}}
{{- with index . 1 -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $root.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The ConfigMap's files. Without changes, config.conf keeps its comments. */}}
{{- define "kube-vmap.config" -}}
{{- $server := required "apiServer is not set: kube-vmap cannot reach the API server through the Service \"kubernetes\", which it programs itself. Set an address that nodes reach without a Service proxy: --set apiServer=https://10.0.0.1:6443 (docs/install has it for each distribution)" .Values.apiServer -}}
{{- if .Values.serviceProxyName -}}
{{- $_ := required "serviceProxyName: set config.healthzBindAddress and config.metricsBindAddress to ports of its own, such as 0.0.0.0:20256 and 127.0.0.1:20249" (and .Values.config.healthzBindAddress .Values.config.metricsBindAddress) -}}
{{- end -}}
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
{{ include "kube-vmap.name" (list . "kube-vmap") }}-{{ $hash | replace "0" "g" | replace "1" "h" | replace "3" "k" | replace "a" "m" | replace "e" "t" }}
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
