package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
)

// inspectServer serves a handler, with these timeouts of the server.
func inspectServer(t *testing.T, limit time.Duration, h http.Handler) (ask func() (code int, text string, err error)) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ReadTimeout, s.Config.WriteTimeout = limit, limit
	s.Start()
	t.Cleanup(s.Close)
	return func() (int, string, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
		if err != nil {
			return 0, "", err
		}
		var answer *http.Response
		for range 100 { // on a busy machine, the server may not read a request in time
			if answer, err = s.Client().Do(r); err == nil {
				break
			}
		}
		if err != nil {
			return 0, "", err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		return answer.StatusCode, string(text), err
	}
}

func oneAtATime(write Text) http.Handler { return write.serve(make(chan struct{}, 1)) }

func TestSlowAnswerIsSent(t *testing.T) {
	const limit = 50 * time.Millisecond
	ask := inspectServer(t, limit, StatusJSON(func(context.Context, nodestatus.Query) (*nodestatus.Document, error) {
		<-time.After(2 * limit)
		return &nodestatus.Document{Node: "busy"}, nil
	}))
	if code, text, err := ask(); err != nil || code != http.StatusOK || text == "" {
		t.Errorf("%d %q, %v", code, text, err)
	}
}

// TestTextsAreWrittenOneAtATime has texts that take longer than the timeout of a request.
func TestTextsAreWrittenOneAtATime(t *testing.T) {
	const limit, clients = 50 * time.Millisecond, 4
	var now atomic.Int32
	ask := inspectServer(t, limit, oneAtATime(func(_ context.Context, w io.Writer) error {
		if n := now.Add(1); n > 1 {
			t.Errorf("%d are written at a time", n)
		}
		<-time.After(2 * limit)
		_, err := io.WriteString(w, "text")
		now.Add(-1)
		return err
	}))
	failed := make(chan error)
	for range clients {
		go func() {
			code, text, err := ask()
			if code != http.StatusOK || text != "text" {
				failed <- fmt.Errorf("%d %q, %w", code, text, err)
				return
			}
			failed <- err
		}()
	}
	for range clients {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
}

func TestTextErrorIsReturnedAndPartialTextIsAborted(t *testing.T) {
	failure := errors.New("read the kernel: no")
	for before, want := range map[string]int{"": http.StatusServiceUnavailable, strings.Repeat("add table\n", 10000): http.StatusOK} {
		const limit = 50 * time.Millisecond
		ask := inspectServer(t, limit, oneAtATime(func(_ context.Context, w io.Writer) error {
			<-time.After(2 * limit)
			if before == "" {
				return failure
			}
			_, err := io.WriteString(w, before)
			return errors.Join(err, failure)
		}))
		for range 2 { // the turn is released
			code, text, err := ask()
			if whole := code == http.StatusOK && err == nil; code != want || whole || code != http.StatusOK && !strings.Contains(text, failure.Error()) {
				t.Errorf("after %d bytes: %d, %d bytes, %v", len(before), code, len(text), err)
			}
		}
	}
}

func TestTextIsStreamed(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	begun := make(chan struct{})
	s := httptest.NewServer(oneAtATime(func(ctx context.Context, w io.Writer) error {
		_, err := io.WriteString(w, strings.Repeat("x", 1<<16))
		select {
		case <-begun:
		case <-ctx.Done():
			t.Error("nothing came before the end")
		}
		return err
	}))
	defer s.Close()
	defer leave()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
	must(t, err)
	late := time.AfterFunc(10*time.Second, leave)
	defer late.Stop()
	answer, err := s.Client().Do(r)
	must(t, err)
	defer answer.Body.Close()
	if _, err := io.ReadFull(answer.Body, make([]byte, 1)); err != nil {
		t.Error(err)
	}
	close(begun)
	_, _ = io.Copy(io.Discard, answer.Body) // before leave
}
