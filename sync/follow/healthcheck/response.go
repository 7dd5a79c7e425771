package healthcheck

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"kube-vmap/model"
	"kube-vmap/sync/follow/listen"
)

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
