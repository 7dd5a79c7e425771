package page

import (
	"context"
	"crypto/subtle"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"kube-vmap/cmd/inspect/web"
	"kube-vmap/cmd/kubectl-vmap/page/live"
)

//go:embed static
var static embed.FS

// Question asks for the way of a packet.
type Question struct {
	From, To string // as kubectl vmap explain understands them
	Family   string // empty for all
}

// Config configures a [Handler].
type Config struct {
	Cluster *live.Cluster
	// Explain returns the way of a packet, to be sent as JSON.
	Explain func(ctx context.Context, q Question) (any, error)
	Context string // of kubectl: the name of the cluster
	Token   string // with which every path begins
}

// Handler serves the page and its API below "/TOKEN/".
func Handler(c Config) http.Handler {
	s := &server{Config: c, explaining: make(chan struct{}, maxExplaining)}
	mux := http.NewServeMux()
	for name, f := range web.Files(static) {
		mux.Handle("GET /"+name, f)
	}
	mux.HandleFunc("GET /api/overview", s.overview)
	mux.HandleFunc("GET /api/rows", s.rows)
	mux.HandleFunc("GET /api/node", s.node)
	mux.HandleFunc("GET /api/service", s.service)
	mux.HandleFunc("GET /api/way", s.way)
	return web.SecurityHeaders(noStore(web.Hosts{Loopback: true}.Only(web.ReadOnly(onlyOwner(c.Token, mux)))))
}

// noStore keeps answers out of caches; files have headers of their own.
func noStore(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		h.ServeHTTP(w, r)
	})
}

// Errors of requests that are refused.
var (
	errToken  = errors.New("not found: open the URL that kubectl vmap page printed")
	errOrigin = errors.New("requests of other sites are refused")
)

// onlyOwner serves requests whose path begins with the token, and no requests that another
// site made for the API.
func onlyOwner(token string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given, rest, found := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if !found || token == "" || subtle.ConstantTimeCompare([]byte(given), []byte(token)) != 1 {
			web.Refuse(w, http.StatusNotFound, errToken)
			return
		}
		if strings.HasPrefix(rest, "api/") && !sameOrigin(r) {
			web.Refuse(w, http.StatusForbidden, errOrigin)
			return
		}
		r2 := r.Clone(r.Context())
		r2.URL.Path, r2.URL.RawPath = "/"+rest, ""
		h.ServeHTTP(w, r2)
	})
}

// sameOrigin reports whether the page itself made the request, by the headers of browsers.
// Other clients do not send these.
func sameOrigin(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return false
	}
	origin := r.Header.Get("Origin")
	return origin == "" || origin == "http://"+r.Host
}

// server answers requests.
type server struct {
	Config
	explaining chan struct{} // has an item for each question that is being answered
	mu         sync.Mutex    // guards the following
	made       time.Time
	answer     *web.Answer // the last overview
}

const (
	// maxExplaining is how many packets are followed at a time.
	maxExplaining = 2
	// overviewPeriod is how long an overview is used, for all windows.
	overviewPeriod = time.Second
	// askTimeout limits the wait for nodes.
	askTimeout = 25 * time.Second
)

// overview answers with the state of the cluster, and keeps it up to date.
func (s *server) overview(w http.ResponseWriter, r *http.Request) {
	s.Cluster.Watch()
	s.mu.Lock()
	if now := time.Now(); s.answer == nil || now.Sub(s.made) > overviewPeriod {
		body, err := json.Marshal(struct {
			Context string `json:"context"`
			*live.Overview
		}{s.Context, s.Cluster.Overview()})
		if err != nil {
			s.mu.Unlock()
			web.Refuse(w, http.StatusInternalServerError, err)
			return
		}
		s.made, s.answer = now, web.NewAnswer(body)
	}
	answer := s.answer
	s.mu.Unlock()
	answer.ServeHTTP(w, r)
}

// rows answers with some Services on each node.
func (s *server) rows(w http.ResponseWriter, r *http.Request) {
	var names [][2]string
	for _, v := range r.URL.Query()["service"] {
		namespace, name, _ := strings.Cut(v, "/")
		names = append(names, [2]string{namespace, name})
	}
	if len(names) > live.MaxRows {
		web.Refuse(w, http.StatusBadRequest, fmt.Errorf("service: %d are more than %d", len(names), live.MaxRows))
		return
	}
	send(w, r, s.Cluster.Rows(names))
}

// node answers with the state of a node.
func (s *server) node(w http.ResponseWriter, r *http.Request) {
	s.Cluster.Watch()
	n, ok := s.Cluster.Node(r.URL.Query().Get("name"))
	if !ok {
		web.Refuse(w, http.StatusNotFound, errors.New("there is no node of this name"))
		return
	}
	send(w, r, n)
}

// service answers with what nodes know about a Service.
func (s *server) service(w http.ResponseWriter, r *http.Request) {
	s.Cluster.Watch()
	ctx, cancel := context.WithTimeout(r.Context(), askTimeout)
	defer cancel()
	q := r.URL.Query()
	details, err := s.Cluster.Service(ctx, q.Get("namespace"), q.Get("name"))
	if err != nil {
		web.Refuse(w, http.StatusServiceUnavailable, err)
		return
	}
	send(w, r, details)
}

// way answers with the way of a packet.
func (s *server) way(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	question := Question{From: q.Get("from"), To: q.Get("to"), Family: q.Get("family")}
	if question.From == "" || question.To == "" {
		web.Refuse(w, http.StatusBadRequest, errors.New("from and to are needed"))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), askTimeout)
	defer cancel()
	select {
	case s.explaining <- struct{}{}:
		defer func() { <-s.explaining }()
	case <-ctx.Done():
		web.Refuse(w, http.StatusServiceUnavailable, errors.New("other packets are being followed; try again"))
		return
	}
	answer, err := s.Explain(ctx, question)
	if err != nil {
		web.Refuse(w, http.StatusUnprocessableEntity, err)
		return
	}
	send(w, r, answer)
}

// send sends a value as JSON.
func send(w http.ResponseWriter, r *http.Request, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		web.Refuse(w, http.StatusInternalServerError, err)
		return
	}
	web.NewAnswer(body).ServeHTTP(w, r)
}
