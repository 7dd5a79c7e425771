package takeover

import (
	"context"
	"testing"
	"time"

	"github.com/google/nftables"
	"golang.org/x/sync/errgroup"
)

// whileOthersWrite runs fn while another program commits to nf_tables every millisecond.
func (m *machine) whileOthersWrite(fn func()) {
	m.t.Helper()
	conn, err := nftables.New(nftables.WithNetNSFd(m.host.FD()), nftables.AsLasting())
	if err != nil {
		m.t.Fatal(err)
	}
	defer func() {
		if err := conn.CloseLasting(); err != nil {
			m.t.Error(err)
		}
	}()
	ctx, stop := context.WithCancel(m.t.Context())
	var others errgroup.Group
	others.Go(func() error { return write(ctx, conn) })
	fn()
	stop()
	if err := others.Wait(); err != nil {
		m.t.Errorf("write meanwhile: %v", err)
	}
}

func write(ctx context.Context, conn *nftables.Conn) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		<-tick.C
		conn.DelTable(conn.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: "busy"}))
		if err := conn.Flush(); err != nil {
			return err
		}
	}
	return nil
}

func TestRemovalSucceedsWhileOthersWrite(t *testing.T) {
	m := newMachine(t)
	m.loadForeign(nftBackend)
	before := m.listing(nftBackend)
	for range 3 {
		m.loadKubeProxy(nftBackend, "iptables")
		m.whileOthersWrite(func() {
			if removed := m.remove(); len(removed) < 6 {
				t.Errorf("removed only %q", removed)
			}
		})
		same(t, "listings before kube-proxy and after the removal", m.listing(nftBackend), before)
	}
}
