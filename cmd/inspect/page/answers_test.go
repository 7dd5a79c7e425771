package page

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/cmd/inspect/status"
)

func TestViewersShareOneRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var readings atomic.Int32
		h := sample(func(context.Context, status.Query) (*status.Document, error) {
			readings.Add(1)
			time.Sleep(50 * time.Millisecond) //nolint:forbidigo // a reading takes time, in a bubble where none passes
			return &status.Document{}, nil
		})
		for range 100 {
			go func() {
				if w := ask(t, h, http.MethodGet, "/status/api/overview"); w.Code != http.StatusOK {
					t.Errorf("a viewer gets %d", w.Code)
				}
			}()
		}
		<-time.After(900 * time.Millisecond)
		ask(t, h, http.MethodGet, "/status/api/overview")
		if n := readings.Load(); n != 1 {
			t.Errorf("100 viewers cost %d readings", n)
		}
		<-time.After(time.Second)
		ask(t, h, http.MethodGet, "/status/api/overview")
		if n := readings.Load(); n != 2 {
			t.Errorf("a second later there are %d readings", n)
		}
		ask(t, h, http.MethodGet, "/status/api/document?name=web")
		if n := readings.Load(); n != 3 {
			t.Errorf("another question is answered by %d readings", n)
		}
	})
}

func TestSlowReadsAreRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var readings atomic.Int32
		h := sample(func(context.Context, status.Query) (*status.Document, error) {
			readings.Add(1)
			time.Sleep(300 * time.Millisecond) //nolint:forbidigo // a reading takes time, in a bubble where none passes
			return &status.Document{}, nil
		})
		for start := time.Now(); time.Since(start) < 20*time.Second; {
			ask(t, h, http.MethodGet, "/status/api/overview")
			<-time.After(100 * time.Millisecond)
		}
		if n := readings.Load(); n < 5 || n > 7 {
			t.Errorf("in 20 s there are %d readings of 300 ms each", n)
		}
	})
}

// asked counts the reads of a handler in a minute of continuous requests; each read takes the
// given time.
func asked(t *testing.T, clients int, took time.Duration, path func(n int32) string) (readings int32) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var n, questions atomic.Int32
		h := sample(func(context.Context, status.Query) (*status.Document, error) {
			n.Add(1)
			<-time.After(took)
			return &status.Document{}, nil
		})
		ctx, end := context.WithTimeout(t.Context(), time.Minute)
		defer end()
		for range clients {
			go func() {
				for ctx.Err() == nil {
					h.ServeHTTP(discard{}, newRequest(ctx, path(questions.Add(1))))
					<-time.After(10 * time.Millisecond)
				}
			}()
		}
		<-ctx.Done()
		readings = n.Load()
		<-time.After(10 * time.Minute)
	})
	return readings
}

func TestReadsTakeATenthOfTheTime(t *testing.T) {
	for _, took := range []time.Duration{20 * time.Millisecond, 300 * time.Millisecond, 2 * time.Second} {
		for _, clients := range []int{1, 10} {
			paths := map[string]func(n int32) string{
				"one thing":    func(int32) string { return "/status/api/overview" },
				"other things": func(n int32) string { return fmt.Sprint("/status/api/document?name=x", n) },
			}
			for name, path := range paths {
				n := asked(t, clients, took, path)
				if most := int32(time.Minute/((cacheFactor+1)*took)) + 1; n == 0 || n > most {
					t.Errorf("%d clients ask for %s: %d readings of %s in a minute, want up to %d", clients, name, n, took, most)
				}
			}
		}
	}
}

func TestWaitingIsNotWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := sample(func(context.Context, status.Query) (*status.Document, error) {
			<-time.After(8 * time.Second) // the kernel takes that long
			return &status.Document{Time: time.Now()}, nil
		})
		ask(t, h, http.MethodGet, "/status/api/overview")
		start := time.Now()
		w := ask(t, h, http.MethodGet, "/status/api/document?name=web")
		if took := time.Since(start); w.Code != http.StatusOK || took != cacheFactor*maxStateRead+8*time.Second {
			t.Errorf("the next question is answered %d after %s", w.Code, took)
		}
	})
}

func TestOverviewRequestsAreServedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := sample(func(context.Context, status.Query) (*status.Document, error) {
			<-time.After(100 * time.Millisecond)
			return &status.Document{}, nil
		})
		for i := range 100 {
			go func() { ask(t, h, http.MethodGet, fmt.Sprint("/status/api/document?name=x", i)) }()
		}
		synctest.Wait()
		if w := ask(t, h, http.MethodGet, "/status/api/overview"); w.Code != http.StatusOK {
			t.Errorf("it is answered %d", w.Code)
		}
		<-time.After(time.Minute)
	})
}

func TestOneReadAtATimeAndFewWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most, refused atomic.Int32
		h := sample(func(context.Context, status.Query) (*status.Document, error) {
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(100 * time.Millisecond) //nolint:forbidigo // a reading takes time, in a bubble where none passes
			now.Add(-1)
			return &status.Document{}, nil
		})
		for i := range 20 {
			go func() {
				w := ask(t, h, http.MethodGet, fmt.Sprintf("/status/api/document?name=web-%d", i))
				if w.Code == http.StatusServiceUnavailable && strings.Contains(w.Body.String(), errBusy.Error()) {
					refused.Add(1)
				}
			}()
		}
		<-time.After(10 * time.Second)
		if most.Load() != 1 || refused.Load() != 20-maxWaiting-1 {
			t.Errorf("%d read at a time, %d are refused", most.Load(), refused.Load())
		}
		if w := ask(t, h, http.MethodGet, "/status/api/document?name=web-19"); w.Code != http.StatusOK {
			t.Errorf("afterwards it answers %d", w.Code)
		}
	})
}

func TestReadOutlivesItsFirstRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := sample(func(ctx context.Context, _ status.Query) (*status.Document, error) {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(time.Second):
				return &status.Document{}, nil
			}
		})
		go func() {
			ctx, leave := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer leave()
			r := newRequest(ctx, "/status/api/overview")
			h.ServeHTTP(discard{}, r)
		}()
		<-time.After(500 * time.Millisecond)
		start := time.Now()
		if w := ask(t, h, http.MethodGet, "/status/api/overview"); w.Code != http.StatusOK || time.Since(start) > 600*time.Millisecond {
			t.Errorf("who came second gets %d after %s", w.Code, time.Since(start))
		}
	})
}

func TestEndlessReadTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := sample(func(ctx context.Context, _ status.Query) (*status.Document, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		start := time.Now()
		if w := ask(t, h, http.MethodGet, "/status/api/overview"); w.Code != http.StatusServiceUnavailable || time.Since(start) != readTimeout {
			t.Errorf("it answers %d after %s", w.Code, time.Since(start))
		}
	})
}

func TestCachedAnswersExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAnswers(Config{Document: fixed(&status.Document{})})
		for i := range 50 {
			if _, err := a.get(t.Context(), query{Query: status.Query{Name: fmt.Sprint(i)}}); err != nil {
				t.Fatal(err)
			}
		}
		kept := func() int {
			a.mu.Lock()
			defer a.mu.Unlock()
			return len(a.cache)
		}
		if n := kept(); n != 50 {
			t.Errorf("%d answers are kept", n)
		}
		<-time.After(2 * time.Second)
		synctest.Wait()
		if n := kept(); n != 0 {
			t.Errorf("2 s later, %d answers are kept", n)
		}
	})
}

// discard ignores an answer.
type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}

// newRequest returns a request with a context.
func newRequest(ctx context.Context, path string) *http.Request {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+path, nil)
	if err != nil {
		panic(err)
	}
	return r
}
