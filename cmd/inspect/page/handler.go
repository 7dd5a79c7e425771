package page

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"kube-vmap/cmd/inspect/status"
)

// Path is below what everything is served.
const Path = "/status/"

// Config is what a [Handler] is told once.
type Config struct {
	// Document reads the state. It is asked for one thing at a time, with a rest
	// in between.
	Document func(ctx context.Context, q status.Query) (*status.Document, error)
	Version  string // of kube-vmap
	// Hosts are names by which the page may be asked for, beside localhost and
	// addresses; that is the node's name, and those by which it is known.
	Hosts []string
	Log   *slog.Logger
}

// Handler serves the page and its API below [Path].
func Handler(c Config) http.Handler {
	a := newAnswers(c)
	mux := http.NewServeMux()
	for name, f := range files() {
		mux.Handle("GET "+Path+name, f)
	}
	mux.HandleFunc("GET "+Path+"api/document", func(w http.ResponseWriter, r *http.Request) {
		q, err := queryOf(r)
		if err != nil {
			refuse(w, http.StatusBadRequest, err)
			return
		}
		a.serve(w, r, q)
	})
	mux.HandleFunc("GET "+Path+"api/overview", func(w http.ResponseWriter, r *http.Request) {
		a.serve(w, r, query{Query: status.Query{Brief: true}, overview: true})
	})
	return guarded(onlyHosts(c.Hosts, readOnly(mux)))
}

// query is what an answer is to.
type query struct {
	status.Query
	overview bool
}

// queryOf reads what is asked for. A misspelt parameter is an error, since the
// answer without would be much more than what was meant.
func queryOf(r *http.Request) (q query, err error) {
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
			return q, fmt.Errorf("%q is none of namespace, name, brief", name)
		}
	}
	if q.Name == "" && !q.Brief {
		return q, errWhole
	}
	return q, nil
}

// errWhole is that more is asked for than one answer should hold: it would be kept, and
// of a big cluster hundreds of megabytes.
var errWhole = errors.New("name: say which Service, or brief=true for all without endpoints; kube-vmap get has the whole")

// look is how long a look at the state itself takes at most. What takes longer is
// waiting for the kernel, which costs nothing.
const look = 500 * time.Millisecond

// read makes the answer to a query, as JSON, and says what work it took.
func (c *Config) read(ctx context.Context, q query) ([]byte, time.Duration, error) {
	start := time.Now()
	d, err := c.Document(ctx, q.Query)
	if err != nil {
		return nil, min(time.Since(start), look), fmt.Errorf("read the state: %w", err)
	}
	var answer any = d
	if q.overview {
		answer = overviewOf(d, c.Version)
	}
	body, err := json.Marshal(answer)
	took := time.Since(start)
	if looked := start.Add(look); d.Time.After(looked) {
		took -= d.Time.Sub(looked)
	}
	return body, took, err
}

// refuse answers with an error, as JSON.
func refuse(w http.ResponseWriter, code int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()}) // whoever asked does not listen any more
}
