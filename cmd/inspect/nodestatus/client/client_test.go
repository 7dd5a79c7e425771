package client_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/nodestatus/client"
)

func TestErrorsGiveTheNextStep(t *testing.T) {
	for socket, want := range map[string]string{
		fmt.Sprintf("@none-%d", os.Getpid()): "no kube-vmap answers on @none-" + fmt.Sprint(os.Getpid()) + " in this network namespace: does kube-vmap run? Run this in its pod",
		filepath.Join(t.TempDir(), "none"):   "here: does kube-vmap run?",
		"":                                   "no kube-vmap answers: --status-socket is empty, which disables the socket; give the name or path",
	} {
		_, err := client.Get(t.Context(), socket, nodestatus.Query{})
		if !errors.Is(err, client.ErrNotRunning) || !strings.Contains(fmt.Sprint(err), want) || strings.Contains(fmt.Sprint(err), "\n") {
			t.Errorf("%q: %v, want one line with %q", socket, err, want)
		}
	}
}
