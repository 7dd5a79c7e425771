package page

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestLoopbackServesNoOtherAddresses(t *testing.T) {
	h := Hosts{Loopback: true}.only(http.NotFoundHandler())
	for host, want := range map[string]int{
		"localhost:8080": 404, "127.0.0.1:8080": 404, "127.1.2.3": 404, "[::1]:8080": 404, "page.localhost": 404,
		"192.0.2.1:8080": 421, "[2001:db8::1]:8080": 421, "10.0.0.1": 421, "0.0.0.0:8080": 421, "evil.example": 421, "": 421,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Host = host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("asked as %q, it answers %d, want %d", host, w.Code, want)
		}
	}
}
