package healthcheck

import (
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	stdsync "sync"

	"kube-vmap/model"
	"kube-vmap/sync"
	"kube-vmap/sync/listen"
)

// Config is what [Servers] are told once.
type Config struct {
	// AllAddresses tells of each family whether node ports are served on all of the
	// node's addresses. In the others, only [sync.Committed] tells where.
	AllAddresses [len(model.Families)]bool
	// Healthy tells what /livez says of the proxy. It must not wait, and may be
	// called from several goroutines at a time.
	Healthy func() bool
	// Recorder is told of ports that cannot be opened; nil means nobody is.
	Recorder sync.Recorder
	Log      *slog.Logger
}

// Servers are the health check servers of all Services. They follow what the
// kernel has taken, so that nobody sends connections before there are rules.
type Servers struct {
	Config
	sockets *listen.Sockets
	limit   *listen.ConnLimit

	mu     stdsync.RWMutex // guards what follows
	checks map[model.ServiceName]model.HealthCheck
	addrs  []netip.Addr // where all of them listen
}

var _ sync.Follower = (*Servers)(nil)

// maxConnections is how many load balancers may be connected at a time, to all
// Services together. One more closes the oldest.
const maxConnections = 1024

// New makes the servers; none listens before Run.
func New(c Config) *Servers {
	return &Servers{
		Config: c, checks: map[model.ServiceName]model.HealthCheck{}, limit: listen.NewConnLimit(maxConnections),
		sockets: listen.New(listen.Config{Name: "health check server", Reason: sync.ReasonHealthCheck, Recorder: c.Recorder, Log: c.Log}),
	}
}

// String names the task.
func (s *Servers) String() string { return "health checks of Services" }

// Run serves until ctx ends, which is no error. It is called once.
func (s *Servers) Run(ctx context.Context) error { return s.sockets.Run(ctx, s.serve) }

// Follow implements [sync.Follower].
func (s *Servers) Follow(t sync.Committed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var touched []model.ServiceName
	for _, h := range t.HealthChecks {
		touched = append(touched, h.Service)
	}
	hosts := s.listenAddrs(t.NodeAddrs)
	if t.Full || !slices.Equal(hosts, s.addrs) {
		touched = slices.AppendSeq(touched, maps.Keys(s.checks))
	}
	before := s.socketsOf(touched)
	s.addrs = hosts
	s.apply(t)
	s.sockets.Change(before, s.socketsOf(touched))
}

// apply takes in what is known of Services.
func (s *Servers) apply(t sync.Committed) {
	if t.Full {
		clear(s.checks)
	}
	for _, h := range t.HealthChecks {
		if h.Port == 0 {
			delete(s.checks, h.Service)
			continue
		}
		s.checks[h.Service] = h
	}
}

// listenAddrs are the addresses to listen on if the node has these.
func (s *Servers) listenAddrs(addrs []netip.Addr) []netip.Addr {
	var hosts []netip.Addr
	unspecified := [len(model.Families)]netip.Addr{model.IPv4: netip.IPv4Unspecified(), model.IPv6: netip.IPv6Unspecified()}
	for _, f := range model.Families {
		if s.AllAddresses[f] {
			hosts = append(hosts, unspecified[f])
			continue
		}
		for _, a := range addrs {
			// A link-local address of IPv6 means nothing without its interface, and
			// no load balancer asks there.
			if model.FamilyOf(a) == f && !(a.Is6() && a.IsLinkLocalUnicast()) {
				hosts = append(hosts, a)
			}
		}
	}
	return hosts
}

// socketsOf are the sockets of Services as things stand.
func (s *Servers) socketsOf(services []model.ServiceName) []listen.Socket {
	var all []listen.Socket
	for _, name := range services {
		h, known := s.checks[name]
		if !known {
			continue
		}
		for _, a := range s.addrs {
			all = append(all, listen.Socket{Service: name, UID: h.UID, Addr: netip.AddrPortFrom(a, h.Port)})
		}
	}
	return all
}

// check is what is known of a Service; nothing is local of one that is gone.
func (s *Servers) check(service model.ServiceName) model.HealthCheck {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.checks[service]
}
