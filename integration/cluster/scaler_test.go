package cluster_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/daemon/built"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/process"
	"kube-vmap/model"
	"kube-vmap/sync/follow/demand"
)

const scalerName = "kube-vmap-scaler"

// scalerScene is a cluster with kube-vmap on a node and kube-vmap-scaler in a pod, and a test in the
// place of kubelet and KEDA.
type scalerScene struct {
	*clustertest.Cluster
	t       *testing.T
	ns      *objects.Namespace
	system  *objects.Namespace
	config  process.Config // of the scaler
	scaler  *process.Process
	address string // of its port for KEDA
	trigger string // the program that sends KEDA's requests
	dir     string // with its files on the node
}

// TestKEDAStartsWhatClientsWaitFor has clients of Services that sleep, over each family and protocol.
func TestKEDAStartsWhatClientsWaitFor(t *testing.T) {
	t.Parallel()
	s := newScalerScene(t)
	s.start()
	node := s.Proxy(t, s.Lab.Node, "--scaler-directory="+s.dir)
	clustertest.Must(t, s.Lab.Pods[2].ServeAll(targetPort))
	for _, f := range model.Families {
		for _, p := range model.Protocols {
			s.wake(f, p)
		}
	}
	s.loseScaler(node)
	s.checkTriggers()
	s.checkTokens()
	s.addSuccessor()
}

func newScalerScene(t *testing.T) *scalerScene {
	t.Helper()
	c := clustertest.New(t, lab.Options{Pods: 3})
	c.Deploy(t)
	ctx := clustertest.Context(t)
	_, err := c.Kubectl(ctx, "apply", "-k", filepath.Join(clustertest.Root(t), "deploy", "scaler"))
	clustertest.Must(t, err)
	s := &scalerScene{
		Cluster: c, t: t, ns: c.Namespace(t), dir: t.TempDir(),
		system: &objects.Namespace{Name: metav1.NamespaceSystem, Client: c.Client},
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	clustertest.Must(t, c.ServiceAccountKubeconfig(ctx, s.system.Name, scalerName, c.Server, kubeconfig))
	s.config = process.Config{
		Program: built.Scaler.Path(), Host: c.Lab.Pods[0].Host, Args: []string{"--kubeconfig=" + kubeconfig, "-v"},
	}
	s.trigger = built.TriggerTest.Path()
	s.createPods()
	s.createCertificate()
	service, err := c.Client.CoreV1().Services(s.system.Name).Get(ctx, scalerName, metav1.GetOptions{})
	clustertest.Must(t, err)
	s.address = netip.AddrPortFrom(netip.MustParseAddr(service.Spec.ClusterIP), 9090).String()
	return s
}

func (s *scalerScene) createPod(name string, at objects.Place, change func(*corev1.PodSpec)) *corev1.Pod {
	ctx := clustertest.Context(s.t)
	pod, err := s.system.CreatePod(ctx, name, name, at, change)
	clustertest.Must(s.t, err)
	s.t.Cleanup(func() { clustertest.Must(s.t, s.system.DeletePod(context.WithoutCancel(ctx), name)) })
	return pod
}

func (s *scalerScene) createScalerPod(name string, at objects.Place) {
	s.createPod(name, at, func(spec *corev1.PodSpec) {
		spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "reports", ContainerPort: 8443}, {Name: "keda", ContainerPort: 9090}}
	})
	_, err := s.Kubectl(clustertest.Context(s.t), "-n", s.system.Name, "label", "pod", name, "app.kubernetes.io/name="+scalerName)
	clustertest.Must(s.t, err)
}

// createPods creates the Pods of the scaler and of kube-vmap, whose token the node has.
func (s *scalerScene) createPods() {
	s.createScalerPod("kube-vmap-scaler-test", s.At(s.Lab.Pods[0]))
	pod := s.createPod("kube-vmap-test", objects.Place{Node: s.NodeName(s.Lab.Node)}, func(spec *corev1.PodSpec) {
		spec.ServiceAccountName = "kube-vmap"
	})
	token := s.token("kube-vmap", demand.Audience, &authenticationv1.BoundObjectReference{
		Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID,
	})
	clustertest.Must(s.t, os.WriteFile(filepath.Join(s.dir, demand.TokenFile), []byte(token), 0o600))
}

func (s *scalerScene) token(account, audience string, to *authenticationv1.BoundObjectReference) string {
	spec := authenticationv1.TokenRequestSpec{BoundObjectRef: to}
	if audience != "" {
		spec.Audiences = []string{audience}
	}
	r, err := s.Client.CoreV1().ServiceAccounts(s.system.Name).CreateToken(
		clustertest.Context(s.t), account, &authenticationv1.TokenRequest{Spec: spec}, metav1.CreateOptions{})
	clustertest.Must(s.t, err)
	return r.Status.Token
}

// createCertificate creates one of an hour ago, which was published, and kubelets have mounted since.
func (s *scalerScene) createCertificate() {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	clustertest.Must(s.t, err)
	private, err := keyutil.MarshalPrivateKeyToPEM(key)
	clustertest.Must(s.t, err)
	public, err := cert.NewSelfSignedCACert(
		cert.Config{CommonName: demand.ServerName, NotBefore: time.Now().Add(-2 * time.Hour)}, key)
	clustertest.Must(s.t, err)
	text, err := cert.EncodeCertificates(public)
	clustertest.Must(s.t, err)
	patch, err := json.Marshal(corev1.Secret{Data: map[string][]byte{corev1.TLSCertKey: text, corev1.TLSPrivateKeyKey: private}})
	clustertest.Must(s.t, err)
	_, err = s.Client.CoreV1().Secrets(s.system.Name).Patch(
		clustertest.Context(s.t), scalerName, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	clustertest.Must(s.t, err)
	patch, err = json.Marshal(corev1.ConfigMap{Data: map[string]string{
		demand.CAFile: string(text), demand.ServiceFile: s.system.Name + "/" + scalerName,
	}})
	clustertest.Must(s.t, err)
	_, err = s.Client.CoreV1().ConfigMaps(s.system.Name).Patch(
		clustertest.Context(s.t), scalerName, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	clustertest.Must(s.t, err)
}

// addSuccessor has a Service that is idle, until another Pod is an endpoint of the scaler's Service.
func (s *scalerScene) addSuccessor() {
	sleeper := objects.Service("idle", objects.Port(model.TCP, port, targetPort))
	sleeper.Annotations = map[string]string{"kube-vmap.io/scale-to-zero": "true"}
	_, err := s.ns.CreateService(clustertest.Context(s.t), sleeper)
	clustertest.Must(s.t, err)
	s.receives("idle", "false 0")
	s.createScalerPod("kube-vmap-scaler-next", s.At(s.Lab.Pods[2]))
	s.receives("idle", unknown)
	<-s.scaler.Done()
	if log := s.scaler.Log.Tail(); !strings.Contains(log, "nodes report to another Pod") {
		s.t.Errorf("log of the scaler:\n%s", log)
	}
}

// start starts the scaler, and provides what it publishes to the node, as the kubelet does.
func (s *scalerScene) start() {
	s.t.Helper()
	var err error
	s.scaler, err = process.Start(context.Background(), s.config)
	clustertest.Must(s.t, err)
	scaler := s.scaler
	s.t.Cleanup(func() {
		scaler.Kill()
		if s.t.Failed() {
			s.t.Logf("log of the scaler:\n%s", scaler.Log.Tail())
		}
	})
	eventually.Succeeds(s.t, "the scaler publishes its certificate", func() error {
		config, err := s.Client.CoreV1().ConfigMaps(s.system.Name).Get(s.t.Context(), scalerName, metav1.GetOptions{})
		if err != nil || len(config.Data) != 2 {
			return errors.Join(err, errors.New("no data"))
		}
		for name, text := range config.Data {
			clustertest.Must(s.t, os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600))
		}
		return nil
	})
}

// watch returns a function that waits until KEDA receives that a Service is active.
func (s *scalerScene) watch(service string) (await func()) {
	p, err := process.Start(context.Background(), process.Config{
		Program: s.trigger, Args: []string{"watch", s.address, s.ns.Name, service}, Host: s.Lab.Pods[1].Host,
	})
	clustertest.Must(s.t, err)
	s.t.Cleanup(p.Kill)
	return func() {
		s.t.Helper()
		eventually.Succeeds(s.t, "KEDA receives that Service "+service+" is active", func() error {
			if lines := p.Stdout.Lines(0); !slices.Contains(lines, "true") {
				return fmt.Errorf("received %v", lines)
			}
			return nil
		})
	}
}

// get returns what KEDA receives when it polls.
func (s *scalerScene) get(service string) string {
	out, _ := s.Lab.Pods[1].Command(clustertest.Context(s.t), s.trigger, "get", s.address, s.ns.Name, service).Output()
	return strings.TrimSpace(string(out))
}

// unknown is in what KEDA receives while nodes may not have reported.
const unknown = "Unavailable"

// receives waits until KEDA receives what is wanted, and until then only that it is not known.
func (s *scalerScene) receives(service, want string) {
	s.t.Helper()
	eventually.Succeeds(s.t, "KEDA receives "+want, func() error {
		got := s.get(service)
		if !strings.Contains(got, want) && !strings.Contains(got, unknown) && want != unknown {
			s.t.Errorf("%s: KEDA receives %s, want %s", service, got, want)
		}
		if !strings.Contains(got, want) {
			return fmt.Errorf("received %s", got)
		}
		return nil
	})
}

// status returns what `kube-vmap status` prints on the node.
func (s *scalerScene) status() string {
	out, _ := s.Lab.Node.Command(s.t.Context(), clustertest.Program(s.t), "status").CombinedOutput()
	return string(out)
}

// wake has a client of a Service that sleeps, until it serves.
func (s *scalerScene) wake(f model.Family, p model.Protocol) {
	t := s.t
	name := strings.ToLower(f.String() + "-" + p.String())
	sleeper := objects.Service(name, objects.Port(p, port, targetPort))
	sleeper.Annotations = map[string]string{"kube-vmap.io/scale-to-zero": "true"}
	sleeper, err := s.ns.CreateService(clustertest.Context(t), sleeper)
	clustertest.Must(t, err)
	to := netip.AddrPortFrom(netip.MustParseAddr(sleeper.Spec.ClusterIPs[f]), port)
	await := s.watch(name)
	answers := make(chan lab.Answer, 1)
	go func() {
		timeout := clustertest.Patience
		if p != model.TCP { // what these clients send is not sent again by itself
			timeout = time.Second
		}
		for {
			a, err := s.Lab.Pods[1].Ask(p, to, timeout)
			if err != nil || a.Outcome != lab.TimedOut || p == model.TCP {
				answers <- a
				return
			}
		}
	}()
	await()
	s.receives(name, "true 1")
	if got := s.status(); !strings.Contains(got, "clients wait for an endpoint of 1 Service port;") {
		t.Errorf("%s: status: %s", name, got)
	}
	clustertest.Must(t, s.ns.NewWorkload(name, s.At(s.Lab.Pods[2])).Scale(clustertest.Context(t), 1))
	if a := <-answers; a.Outcome != lab.Answered {
		t.Errorf("%s: %s", name, a)
	}
}

// loseScaler kills the scaler while there is demand. The node says so, and reports all to the next one.
func (s *scalerScene) loseScaler(node *clustertest.Proxy) {
	t := s.t
	s.scaler.Kill()
	const want = "the demand for Services that scale to zero has not been reported for "
	eventually.Succeeds(t, "status says that demand is not reported", func() error {
		if got := s.status(); !strings.Contains(got, want) {
			return fmt.Errorf("status: %s", got)
		}
		return nil
	})
	s.start()
	for _, f := range model.Families {
		for _, p := range model.Protocols {
			s.watch(strings.ToLower(f.String() + "-" + p.String()))()
		}
	}
	eventually.Holds(t, "the log says that demand is reported again", func() bool {
		return len(node.Log.Find(0, "demand reported again")) == 1
	})
}

// checkTriggers has Services that never have demand.
func (s *scalerScene) checkTriggers() {
	_, err := s.ns.CreateService(clustertest.Context(s.t), objects.Service("awake", objects.Port(model.TCP, port, targetPort)))
	clustertest.Must(s.t, err)
	others := objects.Service("others", objects.Port(model.TCP, port, targetPort))
	others.Labels = map[string]string{model.LabelServiceProxyName: "edge"}
	_, err = s.ns.CreateService(clustertest.Context(s.t), others)
	clustertest.Must(s.t, err)
	for service, want := range map[string]string{
		"others": "another proxy serves Service " + s.ns.Name + "/others",
		"awake":  "no annotation kube-vmap.io/scale-to-zero of Service " + s.ns.Name + "/awake", "none": "no Service " + s.ns.Name + "/none",
	} {
		if got := s.get(service); !strings.Contains(got, "FailedPrecondition") || !strings.Contains(got, want) {
			s.t.Errorf("%s: %s, want %s", service, got, want)
		}
	}
}

// checkTokens has others than nodes send reports.
func (s *scalerScene) checkTokens() {
	transport := &http.Transport{
		DialContext: s.Lab.Pods[1].DialContext, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // a client that does not care
	}
	for what, test := range map[string]struct {
		token string
		want  int
	}{
		"another audience": {s.token("kube-vmap", "", nil), http.StatusUnauthorized},
		"another account":  {s.token("default", demand.Audience, nil), http.StatusForbidden},
		"without a Pod":    {s.token("kube-vmap", demand.Audience, nil), http.StatusForbidden},
		"no token":         {"", http.StatusUnauthorized},
	} {
		req, err := http.NewRequestWithContext(clustertest.Context(s.t), http.MethodPost,
			"https://"+strings.Replace(s.address, "9090", "8443", 1)+demand.Path, http.NoBody)
		clustertest.Must(s.t, err)
		if test.token != "" {
			req.Header.Set("Authorization", "Bearer "+test.token)
		}
		resp, err := transport.RoundTrip(req)
		clustertest.Must(s.t, err)
		clustertest.Must(s.t, resp.Body.Close())
		if resp.StatusCode != test.want {
			s.t.Errorf("%s: %s, want %d", what, resp.Status, test.want)
		}
	}
}
