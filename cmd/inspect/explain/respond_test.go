package explain

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/sync/follow/listen/listentest"
)

func TestOldAnswerDoesNotOutweighWhatIsObservedNow(t *testing.T) {
	for _, test := range []struct {
		observed string
		answered bool
		want     string
	}{
		{"", false, ""},
		{"", true, answer.Responds},
		{answer.Refuses, true, answer.Refuses},
		{answer.Silent, false, answer.Silent},
		{answer.Silent, true, ""},
	} {
		if got := response(test.observed, test.answered); got != test.want {
			t.Errorf("observed %q, answered before: %t: %q, want %q", test.observed, test.answered, got, test.want)
		}
	}
}

func TestInterruptedProbeIsNoSilence(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, at := range []string{"127.0.0.1:9", "[::1]:9"} {
		if got := connect(ctx, netip.MustParseAddrPort(at)); got != "" {
			t.Errorf("%s: %q", at, got)
		}
	}
}

func TestProgramsDoNotSeeProbes(t *testing.T) {
	listentest.ExpectUnseen(t, func(to netip.AddrPort) error {
		if got := connect(t.Context(), to); got != answer.Responds {
			return errors.New(got)
		}
		return nil
	})
}
