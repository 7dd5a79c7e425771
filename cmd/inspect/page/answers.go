package page

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	stdsync "sync"
	"time"

	"golang.org/x/sync/singleflight"

	"kube-vmap/cmd/inspect/web"
)

const (
	// maxWaiting is how many different queries may wait for a read; the overview always
	// may.
	maxWaiting = 4
	// minCacheTime is how long an answer is cached at least.
	minCacheTime = time.Second
	// cacheFactor times the duration of a read is how long no other one starts and its
	// answer is cached: all viewers together take about a tenth of a processor.
	cacheFactor = 10
	// readTimeout limits the wait for a read, and the read.
	readTimeout = 12 * time.Second
)

// answers reads and caches the answers to queries, for all viewers.
type answers struct {
	Config
	reads   singleflight.Group
	waiting chan struct{} // has an item for each query that waits
	turn    chan struct{} // has an item during a read and the pause after it
	mu      stdsync.Mutex // guards the following
	cache   map[query]*web.Answer
	logged  string // the last error; empty after a success
}

func newAnswers(c Config) *answers {
	return &answers{Config: c, waiting: make(chan struct{}, maxWaiting), turn: make(chan struct{}, 1), cache: map[query]*web.Answer{}}
}

// errBusy is returned if too many queries wait.
var errBusy = errors.New("too many different queries at the same time; try again")

// serve answers a query.
func (a *answers) serve(w http.ResponseWriter, r *http.Request, q query) {
	answer, err := a.get(r.Context(), q)
	switch {
	case r.Context().Err() != nil:
		return // the client is gone
	case err != nil:
		w.Header().Set("Retry-After", "2")
		web.Refuse(w, http.StatusServiceUnavailable, err)
		return
	}
	answer.ServeHTTP(w, r)
}

// get returns the cached answer, or reads a new one.
func (a *answers) get(ctx context.Context, q query) (*web.Answer, error) {
	if c := a.cached(q); c != nil {
		return c, nil
	}
	done := a.reads.DoChan(q.key(), func() (any, error) {
		// Other requests may wait for it after the first one is gone.
		ctx := context.WithoutCancel(ctx)
		if c := a.cached(q); c != nil {
			return c, nil
		}
		return a.readAnswer(ctx, q)
	})
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the state: %w", ctx.Err())
	case result := <-done:
		if result.Err != nil {
			return nil, result.Err
		}
		return result.Val.(*web.Answer), nil
	}
}

// cached returns the cached answer, or nil.
func (a *answers) cached(q query) *web.Answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cache[q]
}

// key returns a string that identifies the query.
func (q query) key() string {
	return strconv.Quote(q.Namespace) + strconv.Quote(q.Name) + strconv.FormatBool(q.Brief) + strconv.FormatBool(q.overview)
}

// readAnswer reads the state, and caches the answer.
func (a *answers) readAnswer(ctx context.Context, q query) (*web.Answer, error) {
	if err := a.waitForTurn(q); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	body, took, err := a.read(ctx, q)
	time.AfterFunc(cacheFactor*took, func() { <-a.turn })
	a.logChange(err)
	if err != nil {
		return nil, err
	}
	made := web.NewAnswer(body)
	a.store(q, made, max(minCacheTime, cacheFactor*took))
	return made, nil
}

// waitForTurn waits until a query may be read.
func (a *answers) waitForTurn(q query) error {
	if !q.overview {
		select {
		case a.waiting <- struct{}{}:
			defer func() { <-a.waiting }()
		default:
			return errBusy
		}
	}
	late := time.NewTimer(readTimeout)
	defer late.Stop()
	select {
	case a.turn <- struct{}{}:
		return nil
	case <-late.C:
		return errBusy
	}
}

// store caches an answer, and deletes it after some time.
func (a *answers) store(q query, made *web.Answer, during time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cache[q] = made
	time.AfterFunc(during, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.cache, q)
	})
}

// logChange logs an error unless it is the last one again.
func (a *answers) logChange(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != a.logged {
		a.Log.Warn("cannot read the state for the status page", "err", err)
	}
	a.logged = text
}
