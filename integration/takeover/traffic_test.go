package takeover

import (
	"context"
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft"
)

// A frontend is a Service port of the fixtures. kube-proxy sends its connections to pod-1 or
// pod-2, ours to pod-3.
type frontend struct {
	protocol model.Protocol
	at       netip.AddrPort
}

// frontends are Service ports for each protocol and family. pod-3 is no endpoint of
// theirs.
var frontends = []frontend{
	{model.TCP, netip.MustParseAddrPort("10.96.27.123:53")},
	{model.TCP, netip.MustParseAddrPort("[fd00:10:96::2163]:53")},
	{model.UDP, netip.MustParseAddrPort("10.96.27.123:53")},
	{model.UDP, netip.MustParseAddrPort("[fd00:10:96::2163]:53")},
	{model.SCTP, netip.MustParseAddrPort("10.96.236.135:3868")},
	{model.SCTP, netip.MustParseAddrPort("[fd00:10:96::f481]:3868")},
}

func (f frontend) String() string { return f.protocol.String() + " " + f.at.String() }

// A scene is a node with pods, and rules of kube-proxy.
type scene struct {
	*machine
	pods    []*lab.Host
	clients []*lab.Host
	ours    nft.Batch // adds our rules for the frontends
	opened  uint16    // flows
}

func newScene(t *testing.T, load func(*machine)) *scene {
	t.Helper()
	t.Parallel()
	l := labtest.New(t, lab.Options{Pods: 4})
	s := &scene{machine: &machine{t, l.Node.Host}}
	for _, p := range l.Pods {
		s.pods = append(s.pods, p.Host)
	}
	s.clients = []*lab.Host{s.pods[3], l.Node.Host, l.Outside}
	served := map[string]bool{}
	for _, f := range frontends {
		for _, pod := range s.pods[:3] {
			if key := fmt.Sprint(pod.Name, f.protocol, f.at.Port()); !served[key] {
				served[key] = true
				if _, err := pod.Serve(f.protocol, f.at.Port()); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	s.ours = ourRules(s.pods[2])
	load(s.machine)
	return s
}

// ourRules returns what adds our rules, which send connections to a host.
func ourRules(to *lab.Host) nft.Batch {
	var set []model.Frontend
	for i, f := range frontends {
		family := model.FamilyOf(f.at.Addr())
		match := model.Match{Family: family, Addr: f.at.Addr(), Protocol: f.protocol, Port: f.at.Port()}
		set = append(set, model.Frontend{
			Match: match, Pool: &model.Pool{Key: match, Cluster: []netip.AddrPort{to.AddrPort(family, f.at.Port())}},
			Service: model.ServicePortName{ServiceName: model.ServiceName{Namespace: "default", Name: fmt.Sprint("s", i)}, Protocol: f.protocol},
		})
	}
	config := nft.Config{
		MasqueradeMark: nft.DefaultMasqueradeMark,
		Pods:           [...]netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:10:244::/48")},
	}
	_, batch := nft.Adopt(config, nft.Tables{}, nft.Change{Set: set})
	return batch
}

// deleteOurs deletes our tables.
var deleteOurs = nft.Batch{nft.DeleteTable{Family: model.IPv4}, nft.DeleteTable{Family: model.IPv6}}

// everywhere calls fn for each client and frontend.
func (s *scene) everywhere(fn func(from *lab.Host, f frontend)) {
	for _, from := range s.clients {
		for _, f := range frontends {
			fn(from, f)
		}
	}
}

// expect checks that new connections are answered by kube-proxy's endpoints or by ours.
func (s *scene) expect(when string, ours bool) {
	s.t.Helper()
	s.everywhere(func(from *lab.Host, f frontend) {
		a, err := from.AskFresh(f.protocol, netip.Addr{}, f.at, patience)
		if err != nil || a.Outcome != lab.Answered || (a.By == s.pods[2].Name) != ours {
			s.t.Errorf("%s: %s asks %s: %s, %v; want our endpoint: %v", when, from, f, a, err, ours)
		}
	})
}

// patience is enough for an answer, silence for the absence of one.
const (
	patience = 3 * time.Second
	silence  = 100 * time.Millisecond
)

// TestSwitchLosesNoConnection has clients open connections all the time, while kube-proxy's
// rules are suspended in favour of ours, and resumed. Connections that exist keep their
// endpoints. Suspended rules alone translate nothing.
func TestSwitchLosesNoConnection(t *testing.T) {
	t.Parallel()
	for _, mode := range nftModes[:2] {
		t.Run(mode.name, func(t *testing.T) {
			s := newScene(t, mode.load)
			s.expect("before", false)
			s.apply(s.find().Suspend())
			s.everywhere(func(from *lab.Host, f frontend) {
				if a, err := from.AskFresh(f.protocol, netip.Addr{}, f.at, silence); err != nil || a.Outcome == lab.Answered {
					t.Errorf("suspended: %s asks %s: %s, %v", from, f, a, err)
				}
			})
			s.apply(s.find().Resume())
			s.expect("resumed", false)
			ctx, stop := context.WithCancel(t.Context())
			var clients errgroup.Group
			var asked atomic.Int64
			s.everywhere(func(from *lab.Host, f frontend) {
				clients.Go(func() error { return askAllTheTime(ctx, from, f, &asked) })
			})
			theirs := s.open()
			for round := range 3 {
				s.apply(append(s.ours, s.find().Suspend()...))
				s.expect(fmt.Sprint("round ", round, " with our rules"), true)
				ours := s.open()
				s.check("with our rules", theirs)
				s.apply(append(s.find().Resume(), deleteOurs...))
				s.expect(fmt.Sprint("round ", round, " with kube-proxy's rules"), false)
				s.check("after going back", theirs)
				s.check("after going back", ours)
				closeFlows(t, ours)
			}
			closeFlows(t, theirs)
			stop()
			if err := clients.Wait(); err != nil {
				t.Error(err)
			}
			t.Logf("%d connections", asked.Load())
		})
	}
}

// askAllTheTime opens one connection after the other, until the first that fails.
func askAllTheTime(ctx context.Context, from *lab.Host, f frontend, asked *atomic.Int64) error {
	for ctx.Err() == nil {
		a, err := from.AskFresh(f.protocol, netip.Addr{}, f.at, patience)
		if err != nil || a.Outcome != lab.Answered {
			return fmt.Errorf("%s asks %s: %s, %w", from, f, a, err)
		}
		asked.Add(1)
		time.Sleep(time.Millisecond) //nolint:forbidigo // leaves the machine to others; nothing waits for it
	}
	return nil
}

// A flow is a connection with the endpoint that it has.
type flow struct {
	*lab.Flow
	from           *lab.Host
	name, endpoint string
}

// firstFlowPort is below the ports of [lab.Host.AskFresh], which for SCTP may be one of a flow.
const firstFlowPort = 9000

// open opens connections.
func (s *scene) open() (flows []flow) {
	s.t.Helper()
	s.everywhere(func(from *lab.Host, f frontend) {
		s.opened++
		c, err := from.Flow(f.protocol, netip.AddrPortFrom(netip.Addr{}, firstFlowPort+s.opened), f.at)
		if err != nil {
			s.t.Fatal(err)
		}
		a, err := c.Ask(patience)
		if err != nil || a.Outcome != lab.Answered {
			s.t.Errorf("%s opens a connection to %s: %s, %v", from, f, a, err)
		}
		flows = append(flows, flow{c, from, from.Name + " to " + f.String(), a.By})
	})
	return flows
}

// check checks that connections live on, with their endpoints.
func (s *scene) check(when string, flows []flow) {
	s.t.Helper()
	for _, f := range flows {
		if a, err := f.Ask(patience); err != nil || a.Outcome != lab.Answered || a.By != f.endpoint {
			s.t.Errorf("%s, the connection of %s with %s: %s, %v", when, f.name, f.endpoint, a, err)
		}
	}
}

func closeFlows(t *testing.T, flows []flow) {
	t.Helper()
	for _, f := range flows {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}
