package page

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"kube-vmap/sync/throttle"
)

// jsonAnswer is an answer in JSON for any number of requests, compressed at most once.
type jsonAnswer struct {
	body       []byte
	compressed func() []byte
	pace       throttle.Throttle // until it is old
}

func newAnswer(value any) (*jsonAnswer, error) {
	body, err := json.Marshal(value)
	return &jsonAnswer{body: body, compressed: sync.OnceValue(func() []byte { return compress(body) })}, err
}

// ServeHTTP sends the answer, compressed if the client accepts that.
func (a *jsonAnswer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := a.body
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") { // browsers exclude no coding by a weight
		body = a.compressed()
		w.Header().Set("Content-Encoding", "gzip")
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // fails only if the client is gone
}

func refuse(w http.ResponseWriter, code int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()}) // fails only if the client is gone
}

func compress(body []byte) []byte {
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
