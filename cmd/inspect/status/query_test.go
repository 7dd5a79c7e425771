package status_test

import (
	"net/url"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/status"
)

func TestQueryRoundTripsThroughURL(t *testing.T) {
	for _, q := range []status.Query{{}, {Namespace: "shop"}, {Name: "web", Brief: true}, {Observe: 1500 * time.Millisecond}, {Namespace: "a&b=c", Name: "ü ?"}} {
		u, err := url.ParseQuery(q.Values().Encode())
		if err != nil || status.ParseQuery(u) != q {
			t.Errorf("%+v becomes %+v, %v", q, status.ParseQuery(u), err)
		}
	}
}
