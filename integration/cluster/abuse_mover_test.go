package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	stdsync "sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// changerName is the name of the Service that moves, and of its slice.
const changerName = "moves"

// changer changes a Service of the honest tenant all the time and measures how long the
// node takes to follow. A change gives the Service another port and its slice another
// endpoint. When a packet to the new port reaches the new endpoint, the proxy has
// processed everything that was written to the API before.
type changer struct {
	ns     *objects.Namespace
	client *traffic.Client
	pods   []*lab.Pod // two
	at     netip.Addr
	stop   context.CancelFunc
	done   chan struct{}
	err    error // once done

	// turn is locked for each change. Lock it to stop changes for a while.
	turn stdsync.Mutex

	mu      stdsync.Mutex
	moves   int // completed
	longest time.Duration
}

// changePause is the time between two changes, to leave the processors to others.
const changePause = 30 * time.Millisecond

// newChanger creates the Service, at pods[0].
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
	return corev1.ServicePort{Name: "moves", Protocol: corev1.ProtocolTCP, Port: int32(81 + n%2), TargetPort: intstr.FromInt32(targetPort)}
}

func (m *changer) pod(n int) *lab.Pod { return m.pods[n%len(m.pods)] }

// start starts to change the Service; end must be called.
func (m *changer) start() {
	var ctx context.Context
	ctx, m.stop = context.WithCancel(context.Background())
	m.done = make(chan struct{})
	go func() {
		defer close(m.done)
		if err := m.run(ctx); ctx.Err() == nil {
			m.err = err
		}
	}()
}

// end ends it.
func (m *changer) end() error {
	m.stop()
	<-m.done
	return m.err
}

func (m *changer) run(ctx context.Context) error {
	ticker := time.NewTicker(changePause)
	defer ticker.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		if err := m.move(ctx, n); err != nil {
			return err
		}
	}
}

// move changes the Service and waits until packets follow.
func (m *changer) move(ctx context.Context, n int) error {
	m.turn.Lock()
	defer m.turn.Unlock()
	port := m.port(n)
	_, err := m.ns.ChangeService(ctx, changerName, func(s *corev1.Service) { s.Spec.Ports = []corev1.ServicePort{port} })
	if err != nil {
		return err
	}
	slice := objects.Slice(changerName, changerName, []corev1.ServicePort{port}, "", m.pod(n).Addr(model.IPv4))
	if _, err := m.ns.UpdateSlice(ctx, slice); err != nil {
		return err
	}
	start := time.Now()
	if err := m.await(ctx, netip.AddrPortFrom(m.at, uint16(port.Port)), m.pod(n).Name); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.moves++
	m.longest = max(m.longest, time.Since(start))
	return nil
}

// await sends requests until the named host answers.
func (m *changer) await(ctx context.Context, to netip.AddrPort, name string) error {
	const patience, pause = 100 * time.Millisecond, 2 * time.Millisecond
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		a, err := m.client.AskWithin(daemon.Transport{Protocol: model.TCP, Family: model.IPv4}, to, patience)
		if err != nil || a.By == name {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// take returns the longest time since the last call.
func (m *changer) take() (longest time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	longest, m.longest = m.longest, 0
	return longest
}

// settle waits until the node has processed everything that was in the API before the
// call: the change under way may have begun earlier, the next one has not.
func (m *changer) settle(ctx context.Context) error {
	m.mu.Lock()
	from := m.moves
	m.mu.Unlock()
	return eventually.Try(ctx, func() error {
		select {
		case <-m.done:
			return errors.Join(errors.New("the Service is not changed any more"), m.err)
		default:
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.moves < from+2 {
			return fmt.Errorf("%d changes completed, want %d", m.moves, from+2)
		}
		return nil
	})
}
