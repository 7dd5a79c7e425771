// Package page is the page of a cluster: what nodes program, for people with a browser.
//
//	browser --> Handler --> is the path, the host name, the origin ours?
//	                          |
//	                          +--> static/: index.html, style sheets, scripts (embedded)
//	                          +--> api/...: live.Cluster --Source--> nodes
//	                          `--> api/path: Config.Explain --> nodes
//
// "kubectl vmap page" serves it on 127.0.0.1 to the person who started it, and asks all nodes.
// Other users of the same machine can connect to that, too, and what the page shows and asks is
// done with the rights of the person who started it: so every path begins with a token that only
// the printed URL has. It is not a cookie, since browsers send cookies of 127.0.0.1 to the
// servers of all ports. kubectl proxy has no token, so anyone on the machine can use it.
//
// It is read-only. Other web sites cannot read it through the browser: they do not know the
// token, the Host header must be ours (onlyLoopback), and requests of other origins are refused.
// Pages are HTML, CSS and JavaScript modules, served as they are, without a build step; they
// load nothing from other hosts. Values are inserted as text and attributes only, which the
// browser enforces (Trusted Types).
//
//	app.js       routes, polling              frame.js     keys, how current it is
//	map.js       nodes, and their Services    feed.js      polls the API
//	nodes.js     cards or tiles of nodes      dom.js       elements, without markup in strings
//	servicecells.js  one on all nodes         table.js     the first rows of a long table
//	service.js   one Service                  colours.js   colours of rates
//	flows.js     from which nodes to which    problems.js  a list of problems
//	path.js      the form and its answer      drawing.js   the path of a packet, drawn
//	node.js      one node                     history.js   the last values of a number, drawn
package page

import (
	"context"
	"crypto/subtle"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"kube-vmap/cmd/inspect/page/live"
	"kube-vmap/sync/throttle"
)

//go:embed static
var static embed.FS

// An ExplainRequest names the packets whose path to explain.
type ExplainRequest struct {
	From, To string // as explain understands them
	Family   string // empty for all
}

// Config configures a [Handler].
type Config struct {
	Cluster *live.Cluster
	// Explain returns the path of a packet, to be sent as JSON.
	Explain func(ctx context.Context, q ExplainRequest) (any, error)
	Context string // of kubectl
	Path    string // with which every path begins: the token
}

// Handler serves the page and its API below its path.
func Handler(c Config) http.Handler {
	s := &server{
		Config: c, explaining: make(chan struct{}, 1),
		answers: answers{last: map[string]*jsonAnswer{}},
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", files())
	for name, get := range map[string]func(*http.Request) (any, error){
		"overview": s.overview, "rows": s.rows, "node": s.node, "service": s.service, "path": s.path,
	} {
		mux.HandleFunc("GET /api/"+name, func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, get) })
	}
	return securityHeaders(onlyLoopback(onlyBelow(c.Path, mux)))
}

// onlyBelow serves requests whose path begins with a prefix, which may be secret, and no
// requests that another site made for the API.
func onlyBelow(prefix string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given, rest, found := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if !found || given == "" || subtle.ConstantTimeCompare([]byte("/"+given+"/"), []byte(prefix)) != 1 {
			refuse(w, http.StatusNotFound, errors.New("not found: open the page by its whole URL"))
			return
		}
		if strings.HasPrefix(rest, "api/") && !sameOrigin(r) {
			refuse(w, http.StatusForbidden, errors.New("requests of other sites are refused"))
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
	return origin == "" || origin == "http://"+r.Host || origin == "https://"+r.Host
}

type server struct {
	Config
	explaining chan struct{} // has an item while a packet is followed
	answers    answers
}

// askTimeout limits the wait for nodes.
const askTimeout = 25 * time.Second

type failure struct {
	code int
	error
}

// answer answers a request with what get returns, or its error.
func (s *server) answer(w http.ResponseWriter, r *http.Request, get func(*http.Request) (any, error)) {
	ctx, cancel := context.WithTimeout(r.Context(), askTimeout)
	defer cancel()
	value, err := get(r.WithContext(ctx))
	ready, ok := value.(*jsonAnswer)
	if err == nil && !ok {
		ready, err = newAnswer(value)
	}
	var f failure
	switch {
	case errors.As(err, &f):
		refuse(w, f.code, f.error)
	case err != nil:
		w.Header().Set("Retry-After", "2")
		refuse(w, http.StatusServiceUnavailable, err)
	default:
		ready.serve(w)
	}
}

func (s *server) overview(*http.Request) (any, error) {
	s.Cluster.Watch()
	return s.answers.get("", func() any {
		return struct {
			Context string `json:"context"`
			*live.Overview
		}{s.Context, s.Cluster.Overview()}
	})
}

func (s *server) rows(r *http.Request) (any, error) {
	var names [][2]string
	for _, v := range r.URL.Query()["service"] {
		namespace, name, _ := strings.Cut(v, "/")
		names = append(names, [2]string{namespace, name})
	}
	if len(names) > live.MaxRows {
		return nil, failure{http.StatusBadRequest, fmt.Errorf("service: %d are more than %d", len(names), live.MaxRows)}
	}
	return s.Cluster.Rows(names), nil
}

func (s *server) node(r *http.Request) (any, error) {
	s.Cluster.Watch()
	name := r.URL.Query().Get("name")
	switch known, listed := s.Cluster.Knows(name); {
	case known:
		return s.answers.get("node "+name, func() any { return s.Cluster.Node(name) })
	case listed:
		return nil, failure{http.StatusNotFound, errors.New("there is no node of this name")}
	}
	return s.Cluster.Node(name), nil
}

func (s *server) service(r *http.Request) (any, error) {
	s.Cluster.Watch()
	q := r.URL.Query()
	return s.Cluster.Service(r.Context(), q.Get("namespace"), q.Get("name"))
}

func (s *server) path(r *http.Request) (any, error) {
	q := r.URL.Query()
	request := ExplainRequest{From: q.Get("from"), To: q.Get("to"), Family: q.Get("family")}
	if request.From == "" || request.To == "" {
		return nil, failure{http.StatusBadRequest, errors.New("from and to are needed")}
	}
	select {
	case s.explaining <- struct{}{}:
		defer func() { <-s.explaining }()
	case <-r.Context().Done():
		return nil, errors.New("other packets are being followed; try again")
	}
	answer, err := s.Explain(r.Context(), request)
	if err != nil {
		return nil, failure{http.StatusUnprocessableEntity, err}
	}
	return answer, nil
}

// mediaTypes are fixed, since package mime depends on the machine's files.
var mediaTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// files serves the page's files. Browsers do not keep them, so after an update no old part is
// combined with a new one.
func files() http.Handler {
	texts, err := fs.Sub(static, "static")
	for extension, mediaType := range mediaTypes {
		if err == nil {
			err = mime.AddExtensionType(extension, mediaType)
		}
	}
	if err != nil {
		panic("page: " + err.Error()) // known at build time
	}
	return http.FileServerFS(texts)
}

// jsonAnswer is an answer in JSON for any number of requests.
type jsonAnswer struct {
	body []byte
	pace throttle.Throttle // until it is old
}

func newAnswer(value any) (*jsonAnswer, error) {
	body, err := json.Marshal(value)
	return &jsonAnswer{body: body}, err
}

// serve sends the answer, without compression: browsers are on the same machine.
func (a *jsonAnswer) serve(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	_, _ = w.Write(a.body) // fails only if the client is gone
}

func refuse(w http.ResponseWriter, code int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()}) // fails only if the client is gone
}

type answers struct {
	mu   sync.Mutex // held while one is made
	last map[string]*jsonAnswer
}

const (
	// answerPeriod is how long an answer is used at least.
	answerPeriod = 2 * time.Second
	// answerFactor times how long it took to make is the same, up to maxAnswerPeriod: a page
	// calls a state stale after 12 s.
	answerFactor    = 10
	maxAnswerPeriod = 8 * time.Second
)

// get returns the last answer of this name, or makes one. The names are few.
func (a *answers) get(name string, value func() any) (*jsonAnswer, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	start := time.Now()
	if last := a.last[name]; last != nil && last.pace.Remaining() > 0 {
		return last, nil
	}
	made, err := newAnswer(value())
	if err == nil {
		made.pace = throttle.Throttle{Factor: answerFactor, Min: answerPeriod, Max: maxAnswerPeriod}
		made.pace.Pause(time.Since(start))
		a.last[name] = made
	}
	return made, err
}

// policy lets a page load only what its own server has. With Trusted Types the browser
// refuses to parse markup from strings, so names of Services cannot become markup.
var policy = strings.Join([]string{
	"default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'",
	"base-uri 'none'", "frame-ancestors 'none'", "form-action 'none'",
	"require-trusted-types-for 'script'", "trusted-types 'none'",
}, "; ")

// securityHeaders keeps other sites from using what is served, and answers out of caches.
func securityHeaders(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{
			"Content-Security-Policy":      policy,
			"Referrer-Policy":              "no-referrer",
			"X-Content-Type-Options":       "nosniff",
			"Cache-Control":                "no-store",
			"Cross-Origin-Opener-Policy":   "same-origin",
			"Cross-Origin-Embedder-Policy": "require-corp",
			"Cross-Origin-Resource-Policy": "same-origin",
		} {
			w.Header().Set(name, value)
		}
		h.ServeHTTP(w, r)
	})
}

// onlyLoopback serves requests for hosts that no other site controls: addresses of loopback, which
// are not resolved, localhost, and its subdomains (RFC 6761 6.3: not resolved by DNS). By DNS
// rebinding, a web site can make its own name resolve to 127.0.0.1, and then read what is served
// there, since for the browser that is the same site. It cannot make the browser send another Host
// header.
func onlyLoopback(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLoopback(r.Host) {
			refuse(w, http.StatusMisdirectedRequest, errors.New("unknown host name: use 127.0.0.1 or localhost"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isLoopback reports whether the value of a Host header is served.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.IsLoopback()
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}
