package traffic

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// Over returns the ways with one of the protocols.
func Over(protocols ...model.Protocol) []daemon.Transport {
	return slices.DeleteFunc(daemon.Transports(), func(w daemon.Transport) bool { return !slices.Contains(protocols, w.Protocol) })
}

// Target is the receiver of requests, at one port over every protocol.
type Target struct {
	Name  string
	Addrs [len(model.Families)]netip.Addr
	Port  uint16
}

// Service returns the ClusterIPs of a Service of both families as a target.
func Service(s *corev1.Service, port uint16) Target {
	t := Target{Name: s.Namespace + "/" + s.Name, Port: port}
	for i, f := range s.Spec.IPFamilies {
		for _, family := range model.Families {
			if string(f) == family.String() {
				t.Addrs[family] = netip.MustParseAddr(s.Spec.ClusterIPs[i])
			}
		}
	}
	return t
}

// NodePort returns the node port of a Service on a node as a target: that of its first
// port, and of all others with the same number.
func NodePort(s *corev1.Service, n *lab.Node) Target {
	return Target{
		Name:  fmt.Sprintf("node port of %s/%s on %s", s.Namespace, s.Name, n),
		Addrs: [...]netip.Addr{n.Addr(model.IPv4), n.Addr(model.IPv6)},
		Port:  uint16(s.Spec.Ports[0].NodePort),
	}
}

// At returns where the target is asked.
func (t *Target) At(f model.Family) netip.AddrPort { return netip.AddrPortFrom(t.Addrs[f], t.Port) }

// Client is a host that sends requests.
type Client struct {
	host *lab.Host
}

// From returns a host as a client.
func From(h *lab.Host) *Client { return &Client{host: h} }

// String returns the host's name.
func (c *Client) String() string { return c.host.Name }

// Timeout is the limit for a request: less than the second after which TCP retransmits.
const Timeout = 900 * time.Millisecond

// late is the limit for a request over UDP and SCTP, which are not sent again if they are lost. SCTP
// needs two answers of programs, which a busy machine may delay for more than [Timeout].
const late = 10 * time.Second

// Ask sends one request.
func (c *Client) Ask(w daemon.Transport, to netip.AddrPort) (lab.Answer, error) {
	if w.Protocol == model.TCP {
		return c.AskWithin(w, to, Timeout)
	}
	return c.AskWithin(w, to, late)
}

// AskWithin is [Client.Ask] with another timeout.
func (c *Client) AskWithin(w daemon.Transport, to netip.AddrPort, timeout time.Duration) (lab.Answer, error) {
	return c.host.AskFresh(w.Protocol, netip.Addr{}, to, timeout)
}

// enough requests make it practically impossible that one of a few endpoints was never
// picked.
const enough = 200

// AnsweredBy sends requests over every way until each of the named hosts has answered, and
// at least a few. An answer by another host, or none, is an error.
func (c *Client) AnsweredBy(t Target, names ...string) error {
	for _, w := range daemon.Transports() {
		if err := c.AnsweredOver(w, t, names...); err != nil {
			return err
		}
	}
	return nil
}

// AnsweredOver is [Client.AnsweredBy] over one way.
func (c *Client) AnsweredOver(w daemon.Transport, t Target, names ...string) error {
	const few = 4
	missing := map[string]bool{}
	for _, name := range names {
		missing[name] = true
	}
	for n := 0; n < few || len(missing) > 0; n++ {
		if n == enough {
			return fmt.Errorf("%s asks %s over %s %d times: no answer by %v", c, t.Name, w, n, slices.Sorted(maps.Keys(missing)))
		}
		a, err := c.AskRunning(w, t.At(w.Family), Timeout)
		if err == nil && (a.Outcome != lab.Answered || !slices.Contains(names, a.By)) {
			err = fmt.Errorf("want an answer by %s, but %s", strings.Join(names, " or "), a)
		}
		if err != nil {
			return fmt.Errorf("%s asks %s over %s: %w", c, t.Name, w, err)
		}
		delete(missing, a.By)
	}
	return nil
}

// Comes sends a request over each of the ways, or over all, at the same time, and returns an error
// if one has another outcome.
func (c *Client) Comes(t Target, want lab.Outcome, within time.Duration, ways ...daemon.Transport) error {
	if len(ways) == 0 {
		ways = daemon.Transports()
	}
	ask := c.AskRunning
	if want == lab.TimedOut {
		ask = c.AskWithin
	}
	var group errgroup.Group
	for _, w := range ways {
		group.Go(func() error {
			a, err := ask(w, t.At(w.Family), within)
			if err == nil && a.Outcome != want {
				err = fmt.Errorf("%s asks %s over %s: unexpected outcome: %s", c, t.Name, w, a)
			}
			return err
		})
	}
	return group.Wait()
}

// AskRunning is [Client.AskWithin], again as long as no answer came and the machine was paused
// meanwhile.
func (c *Client) AskRunning(w daemon.Transport, to netip.AddrPort, within time.Duration) (lab.Answer, error) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	p := &pulse{last: time.Now()}
	go p.run(ctx)
	for {
		start := time.Now()
		a, err := c.AskWithin(w, to, within)
		if err != nil || a.Outcome != lab.TimedOut || !p.stopped(start, time.Now()) {
			return a, err
		}
	}
}
