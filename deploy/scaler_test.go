package deploy

import (
	"reflect"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"kube-vmap/sync/follow/demand"
)

// TestOnlyTheProxyReportsToTheScaler checks what nodes authenticate their reports with: a token that the
// API server rejects, for the container of the proxy. Pods start without the scaler, too.
func TestOnlyTheProxyReportsToTheScaler(t *testing.T) {
	pod := daemonSet(t, "base/daemonset.yaml").Spec.Template.Spec
	sources := pod.Volumes[1].Projected.Sources
	token, certificate := sources[0].ServiceAccountToken, sources[1].ConfigMap
	if len(sources) != 2 || token.Audience != demand.Audience || token.Path != demand.TokenFile || certificate.Name != "kube-vmap-scaler" || !*certificate.Optional {
		t.Errorf("the volume is %+v, want a token for the scaler and its ConfigMap, if there is one", sources)
	}
	dir := configuration(t, pod.Containers[0]).ScalerDirectory
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		mounted := slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
			return m.Name == pod.Volumes[1].Name && m.ReadOnly && m.MountPath == dir
		})
		if mounted != (c.Name == "kube-vmap") {
			t.Errorf("%s has it in %s: %t", c.Name, dir, mounted)
		}
	}
}

// TestScalerPermissions checks that the scaler may write its own two objects only, and that another
// `kubectl apply` does not: their manifests have no data.
func TestScalerPermissions(t *testing.T) {
	var everywhere rbacv1.ClusterRole
	var own rbacv1.Role
	decode(t, "scaler/clusterrole.yaml", &everywhere)
	decode(t, "scaler/role.yaml", &own)
	for _, c := range []struct{ got, want []rbacv1.PolicyRule }{
		{everywhere.Rules, []rbacv1.PolicyRule{
			{NonResourceURLs: []string{"/openid/v1/jwks"}, Verbs: []string{"get"}},
			{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"get"}},
		}},
		{own.Rules, []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"secrets", "configmaps"}, ResourceNames: []string{"kube-vmap-scaler"}, Verbs: []string{"get", "update"}},
			{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: []string{"list"}},
		}},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("it may %+v, want %+v", c.got, c.want)
		}
	}
	var forAll rbacv1.ClusterRoleBinding
	var forOwn rbacv1.RoleBinding
	var account corev1.ServiceAccount
	decode(t, "scaler/clusterrolebinding.yaml", &forAll)
	decode(t, "scaler/rolebinding.yaml", &forOwn)
	decode(t, "scaler/serviceaccount.yaml", &account)
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account.Name, Namespace: account.Namespace}}
	if !reflect.DeepEqual(forAll.Subjects, subjects) || !reflect.DeepEqual(forOwn.Subjects, subjects) || scaler(t).Spec.Template.Spec.ServiceAccountName != account.Name {
		t.Errorf("permissions are for %+v and %+v, the account is %+v", forAll.Subjects, forOwn.Subjects, subjects)
	}
	var secret corev1.Secret
	var published corev1.ConfigMap
	decode(t, "scaler/secret.yaml", &secret)
	decode(t, "scaler/configmap.yaml", &published)
	for _, object := range []struct {
		name string
		data int
	}{{secret.Name, len(secret.Data) + len(secret.StringData)}, {published.Name, len(published.Data)}} {
		if object.data > 0 || !slices.Contains(own.Rules[0].ResourceNames, object.name) {
			t.Errorf("%+v: want no data, and the name in %v", object, own.Rules[0].ResourceNames)
		}
	}
}

// TestScalerPod checks that there is one, which meets the Pod Security level restricted, and that
// clients reach it: by the ports of the Service, which the policy permits.
func TestScalerPod(t *testing.T) {
	d := scaler(t)
	if *d.Spec.Replicas != 1 || d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
		t.Errorf("%d replicas, %s; want one at a time", *d.Spec.Replicas, d.Spec.Strategy.Type)
	}
	pod := d.Spec.Template.Spec
	c := pod.Containers[0]
	if s := c.SecurityContext; *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(s.Capabilities.Add) > 0 {
		t.Errorf("%+v: want no privileges", s)
	}
	if s := pod.SecurityContext; !*s.RunAsNonRoot || *s.RunAsUser == 0 || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault || pod.HostNetwork {
		t.Errorf("%+v, host network %t: want neither root nor the node's network", s, pod.HostNetwork)
	}
	for _, toleration := range pod.Tolerations {
		if *toleration.TolerationSeconds != 30 {
			t.Errorf("it stays %d s on a node with %s", *toleration.TolerationSeconds, toleration.Key)
		}
	}
	if image := kustomized(t, "scaler").Images[0]; c.Image != image.Name+":"+image.NewTag || image.Name != image.NewName {
		t.Errorf("it runs %s, kustomize replaces %+v", c.Image, image)
	}
	var service corev1.Service
	var policy networkingv1.NetworkPolicy
	decode(t, "scaler/service.yaml", &service)
	decode(t, "scaler/networkpolicy.yaml", &policy)
	if labels := d.Spec.Template.Labels; !reflect.DeepEqual(service.Spec.Selector, labels) || !reflect.DeepEqual(policy.Spec.PodSelector.MatchLabels, labels) {
		t.Errorf("the Service selects %v, the policy %v, pods have %v", service.Spec.Selector, policy.Spec.PodSelector, labels)
	}
	for i, port := range service.Spec.Ports {
		listens := corev1.ContainerPort{Name: port.TargetPort.String(), ContainerPort: port.Port}
		if !slices.Contains(c.Ports, listens) || policy.Spec.Ingress[i].Ports[0].Port.IntVal != port.Port {
			t.Errorf("port %+v: pods have %+v, the policy %+v", port, c.Ports, policy.Spec.Ingress[i])
		}
	}
	if name := service.Spec.Ports[0].Name; name != demand.PortName {
		t.Errorf("nodes look for port %s, the first one is %s", demand.PortName, name)
	}
	if len(policy.Spec.Ingress) != 2 || len(policy.Spec.Ingress[0].From) > 0 || len(policy.Spec.Ingress[1].From) != 1 {
		t.Errorf("the policy has %+v, want nodes from anywhere, and KEDA from its namespace", policy.Spec.Ingress)
	}
}

func scaler(t *testing.T) (d appsv1.Deployment) {
	t.Helper()
	decode(t, "scaler/deployment.yaml", &d)
	return d
}
