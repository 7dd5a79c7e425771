package page

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	stdsync "sync"
	"time"

	"golang.org/x/sync/singleflight"
)

const (
	// waiting is how many questions may wait for their turn to be read, each for all who
	// ask the same; that for the overview always may.
	waiting = 4
	// freshness is how long an answer is as good as a new one.
	freshness = time.Second
	// share is how much longer nothing is read than the last reading took, and its
	// answer is kept: viewers together cost no more than about a tenth of a processor,
	// however much there is to read, and however many things they ask for.
	share = 10
	// patience is how long a question may wait for its turn, and a reading may take.
	patience = 12 * time.Second
)

// answers are those to queries, each made once for all who ask within a second.
type answers struct {
	Config
	making  singleflight.Group
	waiting chan struct{} // holds one for each question that waits
	turn    chan struct{} // holds one during a reading and the rest after it
	mu      stdsync.Mutex // of what follows
	kept    map[query]*answer
	told    string // the last error that was logged; empty again once it works
}

// answer is one answer as it is sent.
type answer struct {
	body   []byte
	packed func() []byte
}

func newAnswers(c Config) *answers {
	return &answers{Config: c, waiting: make(chan struct{}, waiting), turn: make(chan struct{}, 1), kept: map[query]*answer{}}
}

// errBusy is the answer to a query whose turn does not come.
var errBusy = errors.New("too many ask for different things at the same time; try again")

// serve answers a query.
func (a *answers) serve(w http.ResponseWriter, r *http.Request, q query) {
	answer, err := a.get(r.Context(), q)
	switch {
	case r.Context().Err() != nil:
		return // whoever asked does not listen any more
	case err != nil:
		w.Header().Set("Retry-After", "2")
		refuse(w, http.StatusServiceUnavailable, err)
		return
	}
	body := answer.body
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Vary", "Accept-Encoding")
	if takesGzip(r.Header.Get("Accept-Encoding")) {
		body = answer.packed()
		w.Header().Set("Content-Encoding", "gzip")
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // whoever asked does not listen any more
}

// get is an answer that is fresh enough, or a new one.
func (a *answers) get(ctx context.Context, q query) (*answer, error) {
	if kept := a.have(q); kept != nil {
		return kept, nil
	}
	made := a.making.DoChan(q.key(), func() (any, error) {
		// Others may wait for it even if the one who asked first does not any more.
		ctx := context.WithoutCancel(ctx)
		if kept := a.have(q); kept != nil {
			return kept, nil // it was made since
		}
		return a.make(ctx, q)
	})
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the state: %w", ctx.Err())
	case result := <-made:
		if result.Err != nil {
			return nil, result.Err
		}
		return result.Val.(*answer), nil
	}
}

// have is the answer that is kept; nil if none is.
func (a *answers) have(q query) *answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.kept[q]
}

// key tells queries apart.
func (q query) key() string {
	return strconv.Quote(q.Namespace) + strconv.Quote(q.Name) + strconv.FormatBool(q.Brief) + strconv.FormatBool(q.overview)
}

// make reads the state, and keeps the answer for a while.
func (a *answers) make(ctx context.Context, q query) (*answer, error) {
	if err := a.await(q); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	body, took, err := a.read(ctx, q)
	time.AfterFunc(share*took, func() { <-a.turn })
	a.tell(err)
	if err != nil {
		return nil, err
	}
	made := &answer{body: body, packed: stdsync.OnceValue(func() []byte { return pack(body) })}
	a.keep(q, made, max(freshness, share*took))
	return made, nil
}

// await waits for the turn of a query.
func (a *answers) await(q query) error {
	if !q.overview {
		select {
		case a.waiting <- struct{}{}:
			defer func() { <-a.waiting }()
		default:
			return errBusy
		}
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case a.turn <- struct{}{}:
		return nil
	case <-late.C:
		return errBusy
	}
}

// keep keeps an answer. When its time is over its memory is given back, even if
// nobody asks any more.
func (a *answers) keep(q query, made *answer, during time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.kept[q] = made
	time.AfterFunc(during, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.kept, q)
	})
}

// tell logs an error when it is another one than before.
func (a *answers) tell(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != a.told {
		a.Log.Warn("the status page has nothing to show", "err", err)
	}
	a.told = text
}

// takesGzip tells whether gzip is among what an Accept-Encoding header asks for.
func takesGzip(accept string) bool {
	for part := range strings.SplitSeq(accept, ",") {
		coding, weight, _ := strings.Cut(part, ";")
		if c := strings.ToLower(strings.TrimSpace(coding)); c != "gzip" && c != "*" {
			continue
		}
		q, isWeight := strings.CutPrefix(strings.ReplaceAll(weight, " ", ""), "q=")
		n, err := strconv.ParseFloat(q, 64)
		return !isWeight || err == nil && n > 0
	}
	return false
}

// pack compresses, quickly rather than well.
func pack(body []byte) []byte {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err == nil {
		_, err = w.Write(body)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic("page: " + err.Error()) // a buffer takes everything
	}
	return out.Bytes()
}
