package serve

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/nodestatus/client"
)

// TestSlowAnswerIsSent has a server with a shorter timeout than the answer takes.
func TestSlowAnswerIsSent(t *testing.T) {
	const limit = 50 * time.Millisecond
	s := httptest.NewUnstartedServer(client.AckRequests(StatusJSON(func(context.Context, nodestatus.Query) (*nodestatus.Document, error) {
		<-time.After(2 * limit)
		return &nodestatus.Document{Node: "busy"}, nil
	})))
	s.Config.WriteTimeout = limit
	s.Start()
	defer s.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || len(text) == 0 {
		t.Errorf("%q, %v", text, err)
	}
}
