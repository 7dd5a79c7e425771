// Package healthcheck serves the health checks of load balancers: one HTTP server for each Service
// with a healthCheckNodePort, on all addresses where this node serves node ports.
//
//	Committed.HealthChecks --> Servers --> listen.Sockets          GET any path
//	Committed.NodeAddrs -------'               '--> http.Server <--------------- load balancer:
//	/livez: is the proxy healthy? ------------------'                            does this node have endpoints?
//
// A Service has a healthCheckNodePort if its external traffic policy is Local: only nodes with
// endpoints of it should get its connections. Responses equal kube-proxy's byte for byte: 200 if
// the node has endpoints and their rules are up to date, otherwise 503. Endpoints are counted by IP
// family: the response at an IPv6 address has the number of IPv6 endpoints.
//
// Differences from kube-proxy: a Service of one family responds on the node's addresses of the
// other family, too, with the count of its own, because Kubernetes' e2e tests expect it; added and
// removed node addresses are followed, while kube-proxy reads them once; and a port that could not
// be opened is retried soon, not only when a Service changes.
package healthcheck

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	stdsync "sync"
	"time"

	"kube-vmap/model"
	"kube-vmap/sync"
	"kube-vmap/sync/follow/listen"
)

// Config configures [Servers].
type Config struct {
	// AllAddresses is set for families whose node ports are served on all of the node's
	// addresses. For the others, [sync.Committed] has the addresses.
	AllAddresses [len(model.Families)]bool
	// Healthy reports the result of /livez. It must not block, and must be safe for concurrent
	// use.
	Healthy func() bool
	// Recorder, unless it is nil, records ports that cannot be opened.
	Recorder sync.Recorder
	Log      *slog.Logger
}

// Servers are the health check servers of all Services. They follow commits: no load
// balancer sends connections before the rules exist.
type Servers struct {
	Config
	sockets *listen.Sockets
	limit   *listen.ConnLimit

	mu     stdsync.RWMutex // guards the following
	checks map[model.ServiceName]model.HealthCheck
	addrs  []netip.Addr // that they listen on
}

var _ sync.Follower = (*Servers)(nil)

// maxConnections limits open connections of all Services together. One more closes the oldest.
var maxConnections = min(1024, listen.Share(32))

// New returns the servers; none listens before Run.
func New(c Config) *Servers {
	return &Servers{
		Config: c, checks: map[model.ServiceName]model.HealthCheck{}, limit: listen.NewConnLimit(maxConnections),
		sockets: listen.New(listen.Config{
			Name: "health check server", Reason: model.ProblemHealthCheck, Recorder: c.Recorder,
			Field: "spec.healthCheckNodePort", Max: listen.Share(2), Log: c.Log,
		}),
	}
}

// String returns the task's name.
func (s *Servers) String() string { return "health checks of Services" }

// Problems returns the Services whose ports cannot be opened.
func (s *Servers) Problems() []sync.Problem { return s.sockets.Problems() }

// Run serves until ctx ends, which is not an error. It is called once.
func (s *Servers) Run(ctx context.Context) error { return s.sockets.Run(ctx, s.serve) }

// Port returns the lowest health check node port; zero if there is none.
func (s *Servers) Port() (port uint16) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, c := range s.checks {
		if port == 0 || c.Port < port {
			port = c.Port
		}
	}
	return port
}

// Follow implements [sync.Follower].
func (s *Servers) Follow(t sync.Committed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var changed []model.ServiceName
	for _, h := range t.HealthChecks {
		changed = append(changed, h.Service)
	}
	hosts := s.listenAddrs(t.NodeAddrs)
	if t.Full || !slices.Equal(hosts, s.addrs) {
		changed = slices.AppendSeq(changed, maps.Keys(s.checks))
	}
	before := s.socketsOf(changed)
	s.addrs = hosts
	s.apply(t)
	s.sockets.Change(before, s.socketsOf(changed))
}

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

// listenAddrs returns the addresses to listen on if the node has these.
func (s *Servers) listenAddrs(addrs []netip.Addr) []netip.Addr {
	var hosts []netip.Addr
	unspecified := [...]netip.Addr{model.IPv4: netip.IPv4Unspecified(), model.IPv6: netip.IPv6Unspecified()}
	for _, f := range model.Families {
		if s.AllAddresses[f] {
			hosts = append(hosts, unspecified[f])
			continue
		}
		for _, a := range addrs {
			// An IPv6 link-local address needs its interface, and load balancers do not use it.
			if model.FamilyOf(a) == f && !(a.Is6() && a.IsLinkLocalUnicast()) {
				hosts = append(hosts, a)
			}
		}
	}
	return hosts
}

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

// check returns a Service's health check; a removed Service has no local endpoints.
func (s *Servers) check(service model.ServiceName) model.HealthCheck {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.checks[service]
}

// shutdownTimeout is how long requests may take when a server stops.
const shutdownTimeout = time.Second

// A response is the body of every response. The order of its fields is kube-proxy's.
type response struct {
	Service struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"service"`
	LocalEndpoints      int  `json:"localEndpoints"`
	ServiceProxyHealthy bool `json:"serviceProxyHealthy"`
}

// serve implements [listen.Serve]. Each socket has its own server, to end connections
// with their Service.
func (s *Servers) serve(socket listen.Socket, l net.Listener) error {
	server := s.server(socket)
	err := server.Serve(s.limit.Listener(l))
	inTime, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	if server.Shutdown(inTime) != nil {
		_ = server.Close() // closes the connections that remain
	}
	return err
}

// server returns a server that limits the time and the header size of requests. The
// listener limits connections.
func (s *Servers) server(socket listen.Socket) *http.Server {
	family := model.FamilyOf(socket.Addr.Addr())
	return &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			s.respond(w, socket.Service, family)
		}),
		ReadTimeout:    5 * time.Second,
		WriteTimeout:   10 * time.Second,
		IdleTimeout:    time.Minute,
		MaxHeaderBytes: 8 << 10,
		ErrorLog:       slog.NewLogLogger(s.Log.Handler(), slog.LevelWarn),
	}
}

// respond responds with the Service's local endpoints, whatever the request.
func (s *Servers) respond(w http.ResponseWriter, service model.ServiceName, family model.Family) {
	a := response{LocalEndpoints: s.check(service).Local[family], ServiceProxyHealthy: s.Healthy()}
	a.Service.Namespace, a.Service.Name = service.Namespace, service.Name
	body, err := json.MarshalIndent(a, "", "\t")
	if err != nil {
		panic("healthcheck: encode response: " + err.Error())
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("X-Load-Balancing-Endpoint-Weight", strconv.Itoa(a.LocalEndpoints))
	code := http.StatusServiceUnavailable
	if a.LocalEndpoints > 0 && a.ServiceProxyHealthy {
		code = http.StatusOK
	}
	w.WriteHeader(code)
	_, _ = w.Write(body) // the client may have disconnected
}
