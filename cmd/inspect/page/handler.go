package page

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"kube-vmap/cmd/inspect/status"
	"kube-vmap/cmd/inspect/web"
)

//go:embed static
var static embed.FS

// Path is the prefix of all paths.
const Path = "/status/"

// Config configures a [Handler].
type Config struct {
	// Document reads the state. Calls are sequential, with a pause in between.
	Document func(ctx context.Context, q status.Query) (*status.Document, error)
	Version  string // of kube-vmap
	// Hosts are the names of the node under which the page is served, in addition to
	// localhost and addresses.
	Hosts []string
	Log   *slog.Logger
}

// Handler serves the page and its API below [Path].
func Handler(c Config) http.Handler {
	a := newAnswers(c)
	mux := http.NewServeMux()
	for name, f := range web.Files(static) {
		mux.Handle("GET "+Path+name, f)
	}
	mux.HandleFunc("GET "+Path+"api/document", func(w http.ResponseWriter, r *http.Request) {
		q, err := parseQuery(r)
		if err != nil {
			web.Refuse(w, http.StatusBadRequest, err)
			return
		}
		a.serve(w, r, q)
	})
	mux.HandleFunc("GET "+Path+"api/overview", func(w http.ResponseWriter, r *http.Request) {
		a.serve(w, r, query{Query: status.Query{Brief: true}, overview: true})
	})
	return web.SecurityHeaders(web.Hosts{Names: c.Hosts}.Only(web.ReadOnly(mux)))
}

// query selects an answer.
type query struct {
	status.Query
	overview bool
}

// parseQuery reads a query. Unknown parameters are errors, since the answer without them
// could be much larger.
func parseQuery(r *http.Request) (q query, err error) {
	for name, values := range r.URL.Query() {
		value := values[len(values)-1]
		switch name {
		case "namespace":
			q.Namespace = value
		case "name":
			q.Name = value
		case "brief":
			if q.Brief, err = strconv.ParseBool(value); err != nil {
				return q, fmt.Errorf("brief: %q is neither true nor false", value)
			}
		default:
			return q, fmt.Errorf("%q is not one of namespace, name, brief", name)
		}
	}
	if q.Name == "" && !q.Brief {
		return q, errTooMuch
	}
	return q, nil
}

// errTooMuch refuses a query for all endpoints: in a big cluster, the cached answer would
// have hundreds of megabytes.
var errTooMuch = errors.New("name: give a Service, or brief=true for all without endpoints; kube-vmap get has everything")

// maxStateRead is the most time that reading the loop's state takes. More is waiting for
// the kernel, which costs nothing.
const maxStateRead = 500 * time.Millisecond

// read returns the answer to a query, as JSON, and the time that it was at work.
func (c *Config) read(ctx context.Context, q query) ([]byte, time.Duration, error) {
	start := time.Now()
	d, err := c.Document(ctx, q.Query)
	if err != nil {
		return nil, min(time.Since(start), maxStateRead), fmt.Errorf("read the state: %w", err)
	}
	d.Health = nil // log lines and errors are for root alone
	var answer any = d
	if q.overview {
		answer = overviewOf(d, c.Version)
	}
	body, err := json.Marshal(answer)
	took := time.Since(start)
	if end := start.Add(maxStateRead); d.Time.After(end) {
		took -= d.Time.Sub(end)
	}
	return body, took, err
}
