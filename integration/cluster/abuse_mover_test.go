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

// moverName is the name of the Service that moves, and of its slice.
const moverName = "moves"

// mover changes a Service of an honest tenant all the time and measures how long the
// node takes to follow. A change gives the Service another port and its slice another
// endpoint, so that all that was written to the API before has been followed when a
// packet to the new port reaches the new endpoint.
type mover struct {
	ns     *objects.Namespace
	client *traffic.Client
	pods   []*lab.Pod // two
	at     netip.Addr
	stop   context.CancelFunc
	done   chan struct{}
	err    error // once done

	// turn is held for each move. Who else holds it keeps the Service still.
	turn stdsync.Mutex

	mu      stdsync.Mutex
	moves   int       // that were followed
	began   time.Time // when the API had the change under way; zero if there is none
	longest time.Duration
}

// movePause is the time between two moves: the others need the processors, too.
const movePause = 30 * time.Millisecond

// newMover makes the Service, at pods[0].
func newMover(ctx context.Context, ns *objects.Namespace, client *traffic.Client, pods ...*lab.Pod) (*mover, error) {
	m := &mover{ns: ns, client: client, pods: pods}
	s := objects.Service(moverName, m.port(0))
	s.Spec.Selector = nil
	s, err := ns.CreateService(ctx, s)
	if err != nil {
		return nil, err
	}
	m.at = netip.MustParseAddr(s.Spec.ClusterIP)
	_, err = ns.CreateSlice(ctx, objects.Slice(moverName, moverName, s.Spec.Ports, "", m.pod(0).Addr(model.IPv4)))
	return m, err
}

// port and pod are those of the n-th move.
func (m *mover) port(n int) corev1.ServicePort {
	return corev1.ServicePort{Name: "moves", Protocol: corev1.ProtocolTCP, Port: int32(81 + n%2), TargetPort: intstr.FromInt32(targetPort)}
}

func (m *mover) pod(n int) *lab.Pod { return m.pods[n%len(m.pods)] }

// start begins to move; stop must be called.
func (m *mover) start() {
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
func (m *mover) end() error {
	m.stop()
	<-m.done
	m.mu.Lock()
	defer m.mu.Unlock()
	m.began = time.Time{}
	return m.err
}

func (m *mover) run(ctx context.Context) error {
	ticker := time.NewTicker(movePause)
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

// move changes the Service and waits until a packet follows.
func (m *mover) move(ctx context.Context, n int) error {
	m.turn.Lock()
	defer m.turn.Unlock()
	port := m.port(n)
	_, err := m.ns.ChangeService(ctx, moverName, func(s *corev1.Service) { s.Spec.Ports = []corev1.ServicePort{port} })
	if err != nil {
		return err
	}
	slice := objects.Slice(moverName, moverName, []corev1.ServicePort{port}, "", m.pod(n).Addr(model.IPv4))
	if _, err := m.ns.UpdateSlice(ctx, slice); err != nil {
		return err
	}
	start := time.Now()
	m.begin(start)
	if err := m.await(ctx, netip.AddrPortFrom(m.at, uint16(port.Port)), m.pod(n).Name); err != nil {
		return err
	}
	m.followed(time.Since(start))
	return nil
}

// await asks until the named host answers.
func (m *mover) await(ctx context.Context, to netip.AddrPort, name string) error {
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

func (m *mover) begin(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.began = at
}

func (m *mover) followed(took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.moves++
	m.began, m.longest = time.Time{}, max(m.longest, took)
}

// take returns the longest time since it was last called, that of a change under way
// included.
func (m *mover) take() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	longest := m.longest
	if !m.began.IsZero() {
		longest = max(longest, time.Since(m.began))
	}
	m.longest = 0
	return longest
}

// settle waits until the node has followed all that the API had before the call: the
// move under way may have begun earlier, the next one has not.
func (m *mover) settle(ctx context.Context) error {
	m.mu.Lock()
	from := m.moves
	m.mu.Unlock()
	err := eventually.Try(ctx, func() error {
		select {
		case <-m.done:
			return errors.Join(errors.New("the Service does not move any more"), m.err)
		default:
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.moves < from+2 {
			return fmt.Errorf("%d moves were followed, want %d", m.moves, from+2)
		}
		return nil
	})
	return err
}
