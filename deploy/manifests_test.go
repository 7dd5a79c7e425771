// Package deploy has the manifests of kube-vmap and, in modules of their own, its image
// and monitoring. It has no code except tests, which compare the manifests with flags,
// configuration and probes of the code. That an API server accepts them, and that their
// permissions suffice, is tested in integration/cluster.
package deploy

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// A kustomization has the fields that are tested of one, or of a component.
type kustomization struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Namespace  string   `json:"namespace"`
	NamePrefix string   `json:"namePrefix"`
	NameSuffix string   `json:"nameSuffix"`
	Resources  []string `json:"resources"`
	Components []string `json:"components"`
	Patches    []struct {
		Path string `json:"path"`
	} `json:"patches"`
	ConfigMapGenerator []struct {
		Name      string   `json:"name"`
		Namespace string   `json:"namespace"`
		Files     []string `json:"files"`
		Options   struct {
			Labels map[string]string `json:"labels"`
		} `json:"options"`
	} `json:"configMapGenerator"`
	Images []image `json:"images"`
}

// An image replaces the name and tag of an image.
type image struct {
	Name    string `json:"name"`
	NewName string `json:"newName"`
	NewTag  string `json:"newTag"`
}

var folders = []string{"base", "site", "preflight", "readiness", "kubectl", "scaler", "overlays/beside-kube-proxy", "overlays/instead-of-kube-proxy"}

// TestOnlySiteSetsImagesAndConfiguration checks that changing the overlay changes neither
// the image nor the configuration.
func TestOnlySiteSetsImagesAndConfiguration(t *testing.T) {
	for _, folder := range folders {
		k := kustomized(t, folder)
		if !slices.Contains([]string{"site", "readiness", "scaler"}, folder) && len(k.Images)+len(k.ConfigMapGenerator) > 0 {
			t.Errorf("%s sets images %v and ConfigMaps %v itself", folder, k.Images, k.ConfigMapGenerator)
		}
		if strings.HasPrefix(folder, "overlays/") && !slices.Equal(k.Resources, []string{"../../base"}) {
			t.Errorf("%s applies %v, want the base, all of it and nothing else", folder, k.Resources)
		}
	}
	for _, folder := range []string{"base", "preflight"} {
		if got := kustomized(t, folder).Components; !slices.Equal(got, []string{"../site"}) {
			t.Errorf("%s has the components %v, want site", folder, got)
		}
	}
	images := kustomized(t, "site").Images
	preflight := daemonSet(t, "preflight/daemonset.yaml").Spec.Template.Spec
	for _, c := range slices.Concat(containers(t), daemonSet(t, "base/cleanup.yaml").Spec.Template.Spec.Containers, preflight.Containers) {
		name, tag, _ := strings.Cut(c.Image, ":")
		if !slices.Contains(images, image{Name: name, NewName: name, NewTag: tag}) {
			t.Errorf("%s runs %s, which site does not have among %v", c.Name, c.Image, images)
		}
	}
}

func TestPermissionsAreThoseOfNodeProxier(t *testing.T) {
	var binding rbacv1.ClusterRoleBinding
	decode(t, "base/clusterrolebinding.yaml", &binding)
	if want := (rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:node-proxier"}); binding.RoleRef != want {
		t.Errorf("bound to %+v, want %+v", binding.RoleRef, want)
	}
	if want := (rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: "kube-vmap", Namespace: "kube-system"}); len(binding.Subjects) != 1 || binding.Subjects[0] != want {
		t.Errorf("bound are %+v, want %+v", binding.Subjects, want)
	}
	err := fs.WalkDir(os.DirFS("."), ".", func(file string, entry fs.DirEntry, err error) error {
		if file == "helm/templates" { // no YAML; what they render is compared with kustomize
			return fs.SkipDir
		}
		if file == "kubectl" || file == "scaler" { // see TestViewersOnlyRead, TestScalerPermissions
			return fs.SkipDir
		}
		if err != nil || entry.IsDir() || filepath.Ext(file) != ".yaml" || path.Base(file) == "clusterrolebinding.yaml" || file == "readiness/clusterrole.yaml" {
			return err
		}
		var object struct{ APIVersion string }
		if err := yaml.Unmarshal(read(t, file), &object); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if strings.HasPrefix(object.APIVersion, rbacv1.GroupName) {
			t.Errorf("%s gives further permissions", file)
		}
		return nil
	})
	must(t, err)
}

// TestReadinessHasAnAccountOfItsOwn checks that only the account of readiness may change
// nodes. That a policy restricts it is tested in integration/cluster.
func TestReadinessHasAnAccountOfItsOwn(t *testing.T) {
	var role rbacv1.ClusterRole
	decode(t, "readiness/clusterrole.yaml", &role)
	want := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "patch"}}
	if len(role.Rules) != 1 || !reflect.DeepEqual(role.Rules[0], want) {
		t.Errorf("it may %+v, want %+v", role.Rules, want)
	}
	var binding rbacv1.ClusterRoleBinding
	decode(t, "readiness/clusterrolebinding.yaml", &binding)
	pod := daemonSet(t, "readiness/daemonset.yaml").Spec.Template.Spec
	subject := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: pod.ServiceAccountName, Namespace: "kube-system"}
	if binding.RoleRef.Name != role.Name || len(binding.Subjects) != 1 || binding.Subjects[0] != subject || subject.Name != "kube-vmap-readiness" {
		t.Errorf("%+v may %s, want only %+v to", binding.Subjects, binding.RoleRef.Name, subject)
	}
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		if s := c.SecurityContext; s.Privileged != nil || *s.AllowPrivilegeEscalation || len(s.Capabilities.Add) > 0 || !*pod.SecurityContext.RunAsNonRoot {
			t.Errorf("%s has privileges: %+v", c.Name, s)
		}
	}
}

// TestViewersOnlyRead checks the roles for kubectl vmap: they read, and give exec only with
// the verb by which the policy recognizes them. That it restricts them is tested in
// integration/cluster/plugin.
func TestViewersOnlyRead(t *testing.T) {
	var reader rbacv1.ClusterRole
	var role rbacv1.Role
	decode(t, "kubectl/clusterrole.yaml", &reader)
	decode(t, "kubectl/role.yaml", &role)
	ds := daemonSet(t, "base/daemonset.yaml")
	marker := rbacv1.PolicyRule{APIGroups: []string{"apps"}, Resources: []string{"daemonsets"}, ResourceNames: []string{ds.Name}, Verbs: []string{"debug"}}
	if role.Namespace != ds.Namespace || !reflect.DeepEqual(role.Rules[0], marker) {
		t.Errorf("the first rule in %s is %+v, want %+v", role.Namespace, role.Rules[0], marker)
	}
	for _, rule := range slices.Concat(reader.Rules, role.Rules[1:]) {
		if slices.Equal(rule.Resources, []string{"pods/exec"}) {
			continue
		}
		if !slices.Equal(rule.Verbs, []string{"get", "list"}) || slices.Contains(rule.Resources, "secrets") || slices.Contains(rule.Resources, "*") {
			t.Errorf("they may %+v", rule)
		}
	}
	var policy admissionv1.ValidatingAdmissionPolicy
	var binding admissionv1.ValidatingAdmissionPolicyBinding
	decode(t, "kubectl/policy.yaml", &policy)
	decode(t, "kubectl/policybinding.yaml", &binding)
	if *policy.Spec.FailurePolicy != admissionv1.Fail || binding.Spec.PolicyName != policy.Name || binding.Spec.MatchResources != nil ||
		!slices.Equal(binding.Spec.ValidationActions, []admissionv1.ValidationAction{admissionv1.Deny}) {
		t.Errorf("policy %s does not always deny by %+v", policy.Name, binding.Spec)
	}
}

func TestContainerPrivileges(t *testing.T) {
	ds, cleanup := daemonSet(t, "base/daemonset.yaml"), daemonSet(t, "base/cleanup.yaml")
	preflight := daemonSet(t, "preflight/daemonset.yaml")
	for _, c := range []corev1.Container{
		ds.Spec.Template.Spec.Containers[0], cleanup.Spec.Template.Spec.InitContainers[0], preflight.Spec.Template.Spec.InitContainers[0],
	} {
		s := c.SecurityContext
		if s.Privileged != nil || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem {
			t.Errorf("%s: %+v: want no privileges, no way to them, and nothing to write to", c.Name, s)
		}
		if !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || !slices.Equal(s.Capabilities.Add, []corev1.Capability{"NET_ADMIN"}) {
			t.Errorf("%s: drops %v and adds %v, want ALL and NET_ADMIN", c.Name, s.Capabilities.Drop, s.Capabilities.Add)
		}
	}
	for _, pod := range []corev1.PodSpec{ds.Spec.Template.Spec, cleanup.Spec.Template.Spec} {
		if pod.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault || *pod.SecurityContext.RunAsUser != 0 {
			t.Errorf("%+v: want the runtime's seccomp profile, and root, which alone gets capabilities", pod.SecurityContext)
		}
		for _, v := range pod.Volumes {
			if v.HostPath != nil {
				t.Errorf("volume %s is the node's %s", v.Name, v.HostPath.Path)
			}
		}
		if !pod.HostNetwork || pod.HostPID || pod.HostIPC || pod.DNSPolicy != corev1.DNSDefault {
			t.Errorf("host network %t, PID %t, IPC %t, DNS %s; want the node's network and its DNS, no more",
				pod.HostNetwork, pod.HostPID, pod.HostIPC, pod.DNSPolicy)
		}
	}
	if c := ds.Spec.Template.Spec.InitContainers[0]; !*c.SecurityContext.Privileged || !slices.Contains(c.Args, "--init-only") {
		t.Errorf("%s: %v: want the container that sets sysctls to be privileged", c.Name, c.Args)
	}
	if *cleanup.Spec.Template.Spec.AutomountServiceAccountToken {
		t.Error("cleanup gets a token for the API server, which it does not talk to")
	}
}

// TestPreflightSeesTheNodeReadOnly checks what preflight has in addition: the node's
// processes, and two of its directories.
func TestPreflightSeesTheNodeReadOnly(t *testing.T) {
	pod := daemonSet(t, "preflight/daemonset.yaml").Spec.Template.Spec
	if !pod.HostNetwork || !pod.HostPID || pod.HostIPC || pod.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%+v: want the node's network and processes, no more", pod)
	}
	var paths []string
	for _, v := range pod.Volumes {
		if v.HostPath != nil {
			paths = append(paths, v.HostPath.Path)
		}
	}
	if want := []string{"/etc/cni/net.d", "/sys/fs/bpf"}; !slices.Equal(paths, want) {
		t.Errorf("the node's %v are mounted, want %v", paths, want)
	}
	for _, m := range pod.InitContainers[0].VolumeMounts {
		if !m.ReadOnly {
			t.Errorf("%s is writable", m.MountPath)
		}
	}
	if prefix := kustomized(t, "preflight").NamePrefix; prefix != "kube-vmap-" {
		t.Errorf("prefix %q: deleting it would delete the ConfigMap of kube-vmap", prefix)
	}
}

// containers returns the containers of our image in all DaemonSets.
func containers(t *testing.T) []corev1.Container {
	t.Helper()
	ds, cleanup := daemonSet(t, "base/daemonset.yaml"), daemonSet(t, "base/cleanup.yaml")
	preflight := daemonSet(t, "preflight/daemonset.yaml")
	return slices.Concat(ds.Spec.Template.Spec.InitContainers, ds.Spec.Template.Spec.Containers,
		cleanup.Spec.Template.Spec.InitContainers, preflight.Spec.Template.Spec.InitContainers)
}

// configVolume returns the name of the ConfigMap in the first volume.
func configVolume(t *testing.T, ds appsv1.DaemonSet) string {
	t.Helper()
	volumes := ds.Spec.Template.Spec.Volumes
	if volumes[0].ConfigMap == nil {
		t.Fatalf("volumes are %+v, want one of a ConfigMap first", volumes)
	}
	return volumes[0].ConfigMap.Name
}

func kustomized(t *testing.T, folder string) (k kustomization) {
	t.Helper()
	decode(t, path.Join(folder, "kustomization.yaml"), &k)
	return k
}

func daemonSet(t *testing.T, file string) appsv1.DaemonSet {
	t.Helper()
	var ds appsv1.DaemonSet
	decode(t, file, &ds)
	return ds
}

// decode decodes a manifest strictly: fields that are unknown, duplicate or in the wrong
// case are errors.
func decode(t *testing.T, file string, into any) {
	t.Helper()
	text, err := yaml.YAMLToJSONStrict(read(t, file))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	strict, err := json.UnmarshalStrict(text, into)
	if err != nil || len(strict) > 0 {
		t.Fatalf("%s: %v %v", file, err, strict)
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(file))
	must(t, err)
	return text
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// kubeProxyLabels are the labels of kube-proxy's pods in clusters of kubeadm
// (cmd/kubeadm/app/phases/addons/proxy/manifests.go).
var kubeProxyLabels = labels.Set{"k8s-app": "kube-proxy"}

func TestSelectorsMatchOwnPodsOnly(t *testing.T) {
	ds, cleanup := daemonSet(t, "base/daemonset.yaml"), daemonSet(t, "base/cleanup.yaml")
	ours, theirs := labels.Set(ds.Spec.Template.Labels), labels.Set(cleanup.Spec.Template.Labels)
	for name, c := range map[string]struct {
		selector        *metav1.LabelSelector
		takes, takesNot []labels.Set
	}{
		"kube-vmap's":                   {ds.Spec.Selector, []labels.Set{ours}, []labels.Set{kubeProxyLabels, theirs}},
		"cleanup's":                     {cleanup.Spec.Selector, []labels.Set{theirs}, []labels.Set{kubeProxyLabels, ours}},
		"what kube-vmap keeps clear of": {awayFrom(t, ds), []labels.Set{kubeProxyLabels}, []labels.Set{ours, theirs}},
		"what cleanup keeps clear of":   {awayFrom(t, cleanup), []labels.Set{ours}, []labels.Set{kubeProxyLabels, theirs}},
		"the selector for both":         {&metav1.LabelSelector{MatchLabels: kubeProxyLabels}, []labels.Set{kubeProxyLabels, ours}, []labels.Set{theirs}},
	} {
		selector, err := metav1.LabelSelectorAsSelector(c.selector)
		must(t, err)
		for _, pod := range c.takes {
			if !selector.Matches(pod) {
				t.Errorf("selector %s (%s) does not match %v", name, selector, pod)
			}
		}
		for _, pod := range c.takesNot {
			if selector.Matches(pod) {
				t.Errorf("selector %s (%s) matches %v", name, selector, pod)
			}
		}
	}
}

// TestPodsTolerateAllTaints checks that kube-vmap runs wherever kube-proxy would.
func TestPodsTolerateAllTaints(t *testing.T) {
	for _, file := range []string{
		"base/daemonset.yaml", "base/cleanup.yaml", "preflight/daemonset.yaml", "readiness/daemonset.yaml",
	} {
		got := daemonSet(t, file).Spec.Template.Spec.Tolerations
		if want := (corev1.Toleration{Operator: corev1.TolerationOpExists}); len(got) != 1 || got[0] != want {
			t.Errorf("%s tolerates %+v, want %+v", file, got, want)
		}
	}
}

// awayFrom returns the pods that a DaemonSet's pods do not share a node with.
func awayFrom(t *testing.T, ds appsv1.DaemonSet) *metav1.LabelSelector {
	t.Helper()
	terms := ds.Spec.Template.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if len(terms) != 1 || terms[0].TopologyKey != corev1.LabelHostname {
		t.Fatalf("%s keeps clear of %+v, want one kind of pods on its node", ds.Name, terms)
	}
	return terms[0].LabelSelector
}
