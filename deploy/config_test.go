package deploy

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"

	"kube-vmap/cmd/inspect/preflight"
	"kube-vmap/cmd/kube-vmap/config"
	"kube-vmap/sync/serve/health"
)

func TestEveryArgumentIsAFlag(t *testing.T) {
	for _, c := range containers(t) {
		if c.Name != "preflight" {
			parseArguments(t, c)
			continue
		}
		cmd := preflight.NewCommand()
		if err := cmd.ParseFlags(c.Args[1:]); err != nil || c.Args[0] != cmd.Name() || cmd.Flags().NArg() > 0 {
			t.Errorf("%v: %v", c.Args, err)
		}
	}
}

func TestConfigurationLacksTheClusterCIDROnly(t *testing.T) {
	ds := daemonSet(t, "base/daemonset.yaml")
	for _, container := range slices.Concat(ds.Spec.Template.Spec.InitContainers, ds.Spec.Template.Spec.Containers) {
		c := configuration(t, container)
		if len(c.Warnings) != 1 || !strings.HasPrefix(c.Warnings[0], "clusterCIDR: not set") {
			t.Errorf("%s: warnings %q, want that clusterCIDR is not set and no other", container.Name, c.Warnings)
		}
		if c.Proxy.Mode != config.ModeNFTables {
			t.Errorf("%s: mode %q", container.Name, c.Proxy.Mode)
		}
		if name, err := c.NodeName(); name != "node-1" || err != nil {
			t.Errorf("%s: node %q, %v; want the pod's", container.Name, name, err)
		}
	}
}

// TestChartWithAllValuesIsValid checks flags and configuration of what the Helm chart
// renders, which a test of the chart keeps up to date.
func TestChartWithAllValuesIsValid(t *testing.T) {
	var ds appsv1.DaemonSet
	var files corev1.ConfigMap
	for manifest := range strings.SplitSeq(string(read(t, "helm/testdata/rendered.yaml")), "---\n") {
		var object metav1.PartialObjectMetadata
		must(t, yaml.Unmarshal([]byte(manifest), &object))
		var err error
		switch {
		case object.Kind == "DaemonSet" && object.Name == "proxy":
			err = yaml.UnmarshalStrict([]byte(manifest), &ds)
		case object.Kind == "ConfigMap" && strings.HasPrefix(object.Name, "proxy-") && object.Name != "proxy-dashboard":
			err = yaml.UnmarshalStrict([]byte(manifest), &files)
		}
		must(t, err)
	}
	if name := configVolume(t, ds); name != files.Name {
		t.Errorf("pods mount ConfigMap %q, the chart has %q", name, files.Name)
	}
	file := filepath.Join(t.TempDir(), "config.conf")
	must(t, os.WriteFile(file, []byte(files.Data["config.conf"]), 0o600))
	container := ds.Spec.Template.Spec.Containers[0]
	container.Args[0] = "--config=" + file
	made, err := parseArguments(t, container).Config()
	must(t, err)
	_, port, err := net.SplitHostPort(made.Proxy.HealthzBindAddress)
	if err != nil || port != strconv.Itoa(int(container.Ports[0].ContainerPort)) {
		t.Errorf("probes use port %d, the server %s (%v)", container.Ports[0].ContainerPort, port, err)
	}
}

// TestOOMScoreIsTheOneThatKubeletGives: kubelet gives -997 to system-node-critical pods
// (pkg/kubelet/qos/policy.go), and lowering it needs CAP_SYS_RESOURCE.
func TestOOMScoreIsTheOneThatKubeletGives(t *testing.T) {
	pod := daemonSet(t, "base/daemonset.yaml").Spec.Template.Spec
	c := configuration(t, pod.Containers[0])
	if pod.PriorityClassName != "system-node-critical" || *c.Proxy.OOMScoreAdj != -997 {
		t.Errorf("priority class %s, oomScoreAdj %d; want system-node-critical and -997", pod.PriorityClassName, *c.Proxy.OOMScoreAdj)
	}
}

func TestKubeconfigNeedsOnlyTheServerAddress(t *testing.T) {
	container := daemonSet(t, "base/daemonset.yaml").Spec.Template.Spec.Containers[0]
	var k clientcmdv1.Config
	decode(t, mounted(t, container, configuration(t, container).Proxy.ClientConnection.Kubeconfig), &k)
	const account = "/var/run/secrets/kubernetes.io/serviceaccount/" // where kubelet puts it
	if got := k.AuthInfos[0].AuthInfo.TokenFile; got != account+corev1.ServiceAccountTokenKey {
		t.Errorf("token from %s", got)
	}
	if got := k.Clusters[0].Cluster.CertificateAuthority; got != account+corev1.ServiceAccountRootCAKey {
		t.Errorf("certificate authority from %s", got)
	}
	// A name that never resolves (RFC 6761). A default that works would be worse: it
	// would fail on the first node that starts without rules.
	if got := k.Clusters[0].Cluster.Server; !strings.HasSuffix(got, ".invalid:6443") {
		t.Errorf("the server is %s, want an invalid one", got)
	}
}

// TestProbesMatchHealthServer checks also that only readiness, and so a rollout, depends on the
// API server and the node's pod CIDRs: no probe restarts a pod that starts.
func TestProbesMatchHealthServer(t *testing.T) {
	container := daemonSet(t, "base/daemonset.yaml").Spec.Template.Spec.Containers[0]
	_, port, err := net.SplitHostPort(configuration(t, container).Proxy.HealthzBindAddress)
	must(t, err)
	readiness := daemonSet(t, "readiness/daemonset.yaml").Spec.Template.Spec.InitContainers[0].StartupProbe.HTTPGet
	if readiness.Port.String() != port || readiness.Path != container.ReadinessProbe.HTTPGet.Path {
		t.Errorf("deploy/readiness requests %s of port %s, the readiness probe %s of %s",
			readiness.Path, readiness.Port.String(), container.ReadinessProbe.HTTPGet.Path, port)
	}
	if container.StartupProbe != nil {
		t.Error("a startup probe could restart it")
	}
	handler := health.New(health.Config{SyncPeriod: time.Minute}).Handler()
	for probe, want := range map[*corev1.Probe]int{
		container.LivenessProbe: http.StatusOK, container.ReadinessProbe: http.StatusServiceUnavailable,
	} {
		get := probe.HTTPGet
		named := slices.IndexFunc(container.Ports, func(p corev1.ContainerPort) bool { return p.Name == get.Port.String() })
		if named < 0 || strconv.Itoa(int(container.Ports[named].ContainerPort)) != port {
			t.Errorf("probe %s uses port %s of %+v, want %s", get.Path, get.Port.String(), container.Ports, port)
		}
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, get.Path, nil))
		if answer.Code != want {
			t.Errorf("%s returns %d at the start, want %d", get.Path, answer.Code, want)
		}
	}
}

// configuration returns the configuration that results from a container's arguments and
// the file that they name.
func configuration(t *testing.T, c corev1.Container) *config.Config {
	t.Helper()
	args := slices.Clone(c.Args)
	for i, arg := range args {
		if file, ok := strings.CutPrefix(arg, "--config="); ok {
			args[i] = "--config=" + mounted(t, c, file)
		}
	}
	c.Args = args
	made, err := parseArguments(t, c).Config()
	if err != nil {
		t.Fatalf("%s: %v", c.Name, err)
	}
	return made
}

// parseArguments parses a container's arguments with our flags, on a node named node-1.
func parseArguments(t *testing.T, c corev1.Container) *config.Flags {
	t.Helper()
	var args []string
	for _, arg := range c.Args {
		for _, env := range c.Env {
			if env.ValueFrom != nil && env.ValueFrom.FieldRef.FieldPath == "spec.nodeName" {
				arg = strings.ReplaceAll(arg, "$("+env.Name+")", "node-1")
			}
		}
		if strings.Contains(arg, "$(") {
			t.Errorf("%s: %s is not in the environment %+v", c.Name, arg, c.Env)
		}
		args = append(args, arg)
	}
	flags := config.NewFlags()
	set := pflag.NewFlagSet(c.Name, pflag.ContinueOnError)
	flags.AddTo(set)
	if err := set.Parse(args); err != nil || set.NArg() > 0 {
		t.Fatalf("%s: %v, and %q are no flags", c.Name, err, set.Args())
	}
	return flags
}

// mounted returns the file of site/ that a container has at a path.
func mounted(t *testing.T, c corev1.Container, file string) string {
	t.Helper()
	files := kustomized(t, "site").ConfigMapGenerator[0].Files
	folder, name := path.Split(file)
	for _, m := range c.VolumeMounts {
		if m.SubPath != "" {
			t.Errorf("%s: with a subPath, changes of the ConfigMap do not arrive", c.Name)
		}
		if m.MountPath == path.Clean(folder) && slices.Contains(files, name) {
			return path.Join("site", name)
		}
	}
	t.Fatalf("%s does not find %s in %+v with %v", c.Name, file, c.VolumeMounts, files)
	return ""
}

// TestConfigure runs deploy/configure with a kubectl that prints the keys of a ConfigMap. With the
// real one, integration/cluster.TestDeployReadmeCommandsWork runs it.
func TestConfigure(t *testing.T) {
	const (
		kubeconfig = "kind: Config\nclusters:\n- cluster:\n    server: https://api.example.org:6443"
		config     = "kind: KubeProxyConfiguration\nclusterCIDR: 10.244.0.0/16\nconntrack:\n  maxPerCore: 0\nmode: \"\"\noomScoreAdj: null"
	)
	for name, c := range map[string]struct {
		keys        map[string]string
		out, failed string
	}{
		"of kubeadm": {
			keys: map[string]string{"kubeconfig.conf": kubeconfig, "config.conf": config},
			out: "deploy/site/kubeconfig.conf:\n  kind: Config\n  clusters:\n  - cluster:\n      server: https://api.example.org:6443\n" +
				"deploy/site/config.conf:\n  kind: KubeProxyConfiguration\n  clusterCIDR: 10.244.0.0/16\n" +
				"  conntrack:\n    maxPerCore: 0\n  oomScoreAdj: -997\n",
		},
		"health on loopback": {
			keys: map[string]string{"kubeconfig.conf": "server: https://api.example.org", "config.conf": "kind: KubeProxyConfiguration\nhealthzBindAddress: 127.0.0.1:10256"},
			out: "deploy/site/kubeconfig.conf:\n  server: https://api.example.org\ndeploy/site/config.conf:\n  kind: KubeProxyConfiguration\n  healthzBindAddress: 127.0.0.1:10256\n" +
				"healthzBindAddress is 127.0.0.1:10256: the probes must follow (\"Probes\" in deploy/README.md)\n",
		},
		"without kubeconfig": {keys: map[string]string{"config.conf": config}, failed: `kubeconfig.conf has no line "server:"`},
		"without a server":   {keys: map[string]string{"kubeconfig.conf": "kind: Config", "config.conf": config}, failed: `kubeconfig.conf has no line "server:"`},
		"without config":     {keys: map[string]string{"kubeconfig.conf": kubeconfig, "config": config}, failed: `config.conf has no line "kind:"`},
		"no ConfigMap":       {failed: `configmaps "kube-proxy" not found`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, os.CopyFS(filepath.Join(dir, "site"), os.DirFS("site")))
			must(t, os.WriteFile(filepath.Join(dir, "configure"), read(t, "configure"), 0o700))
			kubectl := "#!/bin/sh\n[ \"$1\" = --context=mine ] || exit 9\nfor last; do :; done\ncase $last in\n"
			for key, text := range c.keys {
				kubectl += "'jsonpath={.data." + strings.ReplaceAll(key, ".", `\.`) + "}') printf '%s' '" + text + "' ;;\n"
			}
			if c.keys == nil {
				kubectl += "*) echo 'configmaps \"kube-proxy\" not found' >&2; exit 1 ;;\n"
			}
			must(t, os.WriteFile(filepath.Join(dir, "kubectl"), []byte(kubectl+"esac\n"), 0o700))
			cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "configure"), "--context=mine")
			cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			got := map[string]string{}
			for _, file := range []string{"kubeconfig.conf", "config.conf"} {
				text, readErr := os.ReadFile(filepath.Join(dir, "site", file))
				must(t, readErr)
				got[file] = string(text)
			}
			if c.failed != "" {
				if err == nil || !strings.Contains(string(out), c.failed) {
					t.Errorf("%v: %s\nwant %s", err, out, c.failed)
				}
				if got["kubeconfig.conf"] != string(read(t, "site/kubeconfig.conf")) || got["config.conf"] != string(read(t, "site/config.conf")) {
					t.Errorf("wrote %q", got)
				}
				return
			}
			if err != nil || string(out) != c.out {
				t.Errorf("%v: printed %q, want %q", err, out, c.out)
			}
			for file, text := range got {
				if text != strings.ReplaceAll(c.keys[file], "oomScoreAdj: null", "oomScoreAdj: -997")+"\n" {
					t.Errorf("%s: %q", file, text)
				}
			}
		})
	}
}
