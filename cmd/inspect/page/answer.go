package page

import (
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"

	"kube-vmap/sync/throttle"
)

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
