package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// writer writes objects of an attack to the API: Services and EndpointSlices in the
// namespace of the tenant that attacks.
type writer struct{ evil *objects.Namespace }

// atATime is how many requests are under way.
const atATime = 32

// all sends a request of the method for each object, with many at the same time. It returns how
// many, and their bytes.
func (w *writer) all(ctx context.Context, method string, all []metav1.Object) (writes, written int, err error) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atATime)
	for _, o := range all {
		b, err := json.Marshal(o)
		if err != nil {
			return 0, 0, err
		}
		if method != http.MethodDelete {
			written += len(b)
		}
		group.Go(func() error {
			err := w.send(ctx, method, o, "")
			if s, is := o.(*corev1.Service); is && err == nil && method != http.MethodDelete && len(s.Status.LoadBalancer.Ingress)+len(s.Status.Conditions) > 0 {
				err = w.send(ctx, http.MethodPut, o, "status")
			}
			if err != nil {
				return fmt.Errorf("%T %s: %w", o, o.GetName(), err)
			}
			return nil
		})
	}
	return len(all), written, group.Wait()
}

// send sends one. An object to delete may be gone.
func (w *writer) send(ctx context.Context, method string, o metav1.Object, part string) error {
	client, resource := w.evil.Client.CoreV1().RESTClient(), "services"
	if _, is := o.(*discoveryv1.EndpointSlice); is {
		client, resource = w.evil.Client.DiscoveryV1().RESTClient(), "endpointslices"
	}
	r := client.Verb(method).Namespace(w.evil.Name).Resource(resource)
	if method != http.MethodPost {
		r = r.Name(o.GetName()).SubResource(part)
	}
	if method != http.MethodDelete {
		r = r.Body(o.(runtime.Object))
	}
	err := r.Do(ctx).Error()
	if method == http.MethodDelete && apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// changerName is the name of the Service that moves, of its port, and of its slice.
const changerName = "moves"

// changer changes a Service of the honest tenant and measures how long the node takes to follow. A
// change gives the Service another port and its slice another endpoint. When a packet to the new
// port reaches the new endpoint, the proxy has processed everything that was written to the API
// before.
type changer struct {
	ns     *objects.Namespace
	client *traffic.Client
	pods   []*lab.Pod // two
	at     netip.Addr
	moves  int
}

// changePause is the time between two changes, to leave the processors to others, and patience that
// for an answer.
const changePause, patience = 30 * time.Millisecond, 100 * time.Millisecond

func newChanger(ctx context.Context, ns *objects.Namespace, client *traffic.Client, pods ...*lab.Pod) (*changer, error) {
	m := &changer{ns: ns, client: client, pods: pods}
	s := objects.Service(changerName, m.port(0))
	s.Spec.Selector = nil
	s, err := ns.CreateService(ctx, s)
	if err != nil {
		return nil, err
	}
	m.at = netip.MustParseAddr(s.Spec.ClusterIP)
	_, err = ns.CreateSlice(ctx, objects.Slice(changerName, changerName, s.Spec.Ports, "", m.pod(0).Addr(model.IPv4)))
	return m, err
}

// port returns the port of the Service after the n-th change.
func (m *changer) port(n int) corev1.ServicePort {
	p := objects.Port(model.TCP, uint16(81+n%2), targetPort)
	p.Name = changerName
	return p
}

func (m *changer) pod(n int) *lab.Pod { return m.pods[n%len(m.pods)] }

// moveUntil changes the Service until done is closed, and once more after that. It returns the
// longest time that the node took to follow.
func (m *changer) moveUntil(ctx context.Context, done <-chan struct{}) (longest time.Duration, err error) {
	ticker := time.NewTicker(changePause)
	defer ticker.Stop()
	for last := false; !last; {
		select {
		case <-done:
			last = true
		case <-ticker.C:
		}
		took, err := m.move(ctx)
		if err != nil {
			return longest, err
		}
		longest = max(longest, took)
	}
	return longest, nil
}

// move changes the Service and waits until packets follow. It returns how long they took.
func (m *changer) move(ctx context.Context) (time.Duration, error) {
	m.moves++
	port, pod := m.port(m.moves), m.pod(m.moves)
	_, err := m.ns.ChangeService(ctx, changerName, func(s *corev1.Service) { s.Spec.Ports = []corev1.ServicePort{port} })
	if err != nil {
		return 0, err
	}
	slice := objects.Slice(changerName, changerName, []corev1.ServicePort{port}, "", pod.Addr(model.IPv4))
	if _, err := m.ns.UpdateSlice(ctx, slice); err != nil {
		return 0, err
	}
	start, to := time.Now(), netip.AddrPortFrom(m.at, uint16(port.Port))
	err = eventually.Try(ctx, func() error {
		a, err := m.client.AskWithin(daemon.Transport{Protocol: model.TCP, Family: model.IPv4}, to, patience)
		if err == nil && a.By != pod.Name {
			err = errors.New(a.String())
		}
		return err
	})
	return time.Since(start), err
}
