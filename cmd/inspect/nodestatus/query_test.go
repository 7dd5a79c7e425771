package nodestatus_test

import (
	"net/url"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
)

func TestQueryRoundTripsThroughURL(t *testing.T) {
	for _, q := range []nodestatus.Query{{}, {Namespace: "shop"}, {Name: "web", Brief: true}, {Observe: 1500 * time.Millisecond}, {Namespace: "a&b=c", Name: "ü ?"}} {
		u, err := url.ParseQuery(q.Values().Encode())
		if err != nil || nodestatus.ParseQuery(u) != q {
			t.Errorf("%+v becomes %+v, %v", q, nodestatus.ParseQuery(u), err)
		}
	}
}
