package affinity

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
)

type counters [len(model.Families)]uint64

func (c counters) Counters(f model.Family) (out [nft.Counters]uint64, err error) {
	out[nft.CounterAffinityFull] = c[f]
	return out, nil
}

func (c counters) Clients(nft.SetID, func(nft.Client)) error { panic("not called") }

func (c counters) Apply(nft.Batch) (nft.Applied, error) { panic("not called") }

func TestFullMapIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*period+time.Second)
		defer cancel()
		kernel := counters{model.IPv4: 7, model.IPv6: 9}
		var reported counters
		r := New(Config{Kernel: kernel, Log: slog.New(slog.DiscardHandler), Full: func(f model.Family, n uint64) { reported[f] = n }})
		if err := r.Run(ctx); err != nil || reported != kernel {
			t.Errorf("reported %v, want %v: %v", reported, kernel, err)
		}
	})
}
