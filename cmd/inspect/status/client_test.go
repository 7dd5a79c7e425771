package status_test

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"kube-vmap/cmd/inspect/status"
)

func TestErrorsGiveTheNextStep(t *testing.T) {
	for socket, want := range map[string]string{
		fmt.Sprintf("@none-%d", os.Getpid()): "no kube-vmap answers on @none-" + fmt.Sprint(os.Getpid()) + " in this network namespace: does kube-vmap run? Run this in its pod",
		filepath.Join(t.TempDir(), "none"):   "here: does kube-vmap run?",
		"":                                   "no kube-vmap answers: --status-socket is empty, which disables the socket; give the name or path",
	} {
		_, err := status.Get(t.Context(), socket, status.Query{})
		if !errors.Is(err, status.ErrNotRunning) || !strings.Contains(fmt.Sprint(err), want) || strings.Contains(fmt.Sprint(err), "\n") {
			t.Errorf("%q: %v, want one line with %q", socket, err, want)
		}
	}
}

func TestQueryRoundTripsThroughURL(t *testing.T) {
	for _, q := range []status.Query{{}, {Namespace: "shop"}, {Name: "web", Brief: true}, {Namespace: "a&b=c", Name: "ü ?"}} {
		u, err := url.ParseQuery(q.Values().Encode())
		if err != nil || !reflect.DeepEqual(status.ParseQuery(u), q) {
			t.Errorf("%+v becomes %+v, %v", q, status.ParseQuery(u), err)
		}
	}
}
