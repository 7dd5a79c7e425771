package resolve

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"kube-vmap/cmd/inspect/explain/reference"
)

func TestPortsAreSelected(t *testing.T) {
	r := newResolver()
	for text, want := range map[string]string{
		"svc/web":              "dns 53/udp, dns-tcp 53/tcp, http 80/tcp, sig 2905/sctp",
		"svc/shop/web:http":    "http 80/tcp",
		"service/web:80":       "http 80/tcp",
		"svc/web:53":           "dns 53/udp, dns-tcp 53/tcp",
		"svc/web:53/UDP":       "dns 53/udp",
		"svc/web:2905/sctp":    "sig 2905/sctp",
		"svc/one":              "http 80/tcp",
		"pod/cart-0:http":      "http 8080/tcp",
		"pod/cart-0:9000/sctp": "9000/sctp", // not declared
		"deploy/cart:dns":      "dns 53/udp",
		"node/node-1:30080":    "30080/tcp",
		"10.96.0.10:53/udp":    "53/udp",
		"[fd00:10:96::a]:53":   "53/tcp",
	} {
		d, err := r.Destination(t.Context(), text)
		if got := strings.Join(portTexts(d.Ports), ", "); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", text, got, err, want)
		}
	}
}

func TestErrorsOfDestinationsSayWhatExists(t *testing.T) {
	r := newResolver()
	for text, want := range map[string]string{
		"svc/wbe":                       "there is no service wbe in namespace shop; kubectl get services -A lists them",
		"svc/web:81":                    "service shop/web has no port 81; it has http 80/tcp, dns 53/udp, dns-tcp 53/tcp, sig 2905/sctp",
		"svc/web:80/udp":                "has no port 80/udp; it has http 80/tcp",
		"svc/web:htpt":                  "has no port htpt",
		"svc/web:8080":                  "8080 is spec.ports[].targetPort of http 80/tcp: clients use 80",
		"svc/web:30080":                 "write --to node/NAME:30080",
		"svc/web:80/icmp":               "tcp, udp or sctp",
		"svc/many":                      "has 8 ports, name one",
		"svc/headless":                  "spec.clusterIP: None): DNS answers with the addresses of its pods, and no proxy is involved; name a pod: --to pod/NAME:PORT",
		"svc/pending":                   "no address yet",
		"svc/alias":                     "spec.type: ExternalName): DNS answers with web.example",
		"node/node-1":                   "name a port",
		"10.96.0.10":                    "name a port",
		"web.shop.svc.cluster.local:80": "write svc/shop/web:80",
		"http://web.shop.svc/path?ok":   "write svc/shop/web",
		"web.shop:80":                   "has no kind",
	} {
		if _, err := r.Destination(t.Context(), text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestEndpointIsThePodOfAnySlice has a slice of an author that names no pod, as one that sets
// weights may do, in addition to the controller's.
func TestEndpointIsThePodOfAnySlice(t *testing.T) {
	controllers := *slice("web", "cart-0", "10.244.1.7", "node-1")
	authors := *change(slice("web", "", "10.244.1.7", "node-1"), func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].TargetRef = nil })
	for _, list := range [][]discoveryv1.EndpointSlice{{controllers, authors}, {authors, controllers}} {
		if o := EndpointObjects(list)[netip.MustParseAddr("10.244.1.7")]; o.Kind != reference.KindPod || o.Name != "cart-0" {
			t.Errorf("%+v, want the pod cart-0", o)
		}
	}
	placed, unplaced := authors, *authors.DeepCopy()
	unplaced.Endpoints[0].NodeName = nil
	for _, list := range [][]discoveryv1.EndpointSlice{{placed, unplaced}, {unplaced, placed}} {
		if o := EndpointObjects(list)[netip.MustParseAddr("10.244.1.7")]; o.Node != "node-1" {
			t.Errorf("%+v, want one on node-1", o)
		}
	}
}

// TestInitContainerThatFailsIsTheReason has a pod whose other containers wait for it.
func TestInitContainerThatFailsIsTheReason(t *testing.T) {
	ended := func(code int32) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}
	}
	p := corev1.Pod{Status: corev1.PodStatus{
		InitContainerStatuses: []corev1.ContainerStatus{{Name: "first", State: ended(0)}, {Name: "second", State: ended(7)}},
		Conditions:            []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady"}},
	}}
	if text := fmt.Sprint(Readiness([]corev1.Pod{p})); !strings.Contains(text, "is not ready: its init container second has ended with exit code 7") {
		t.Error(text)
	}
}

// TestMissingPermissionIsNamed has users who may not read some objects.
func TestMissingPermissionIsNamed(t *testing.T) {
	for _, tc := range []struct{ verb, resource, from, want string }{
		{"get", "pods", "pod/cart-0", `pods is forbidden: no; the ClusterRole of deploy/kubectl permits it`},
		{"list", "pods", "deploy/cart", "deploy/kubectl permits it"},
		{"get", "deployments", "deploy/cart", "deploy/kubectl permits it"},
		{"get", "nodes", "node/node-1", "deploy/kubectl permits it"},
		{"list", "nodes", "10.244.1.7", "deploy/kubectl permits it"},
		{"list", "pods", "10.244.1.7", "deploy/kubectl permits it"},
		{"list", "endpointslices", "198.51.100.7", "deploy/kubectl permits it"},
	} {
		r := newResolver()
		r.API.(*fake.Clientset).PrependReactor(tc.verb, tc.resource, func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: tc.resource}, "", errors.New("no"))
		})
		_, err := r.Client(t.Context(), tc.from)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s %s, %s: %v, want %q", tc.verb, tc.resource, tc.from, err, tc.want)
		}
	}
}
