package trace

import (
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/nft/attr"
	"kube-vmap/nft/kernel/socket"
)

// tableOwned is NFT_TABLE_F_OWNER (include/uapi/linux/netfilter/nf_tables.h).
const tableOwned = 0x2

// install adds the tracer's table, which its socket owns, so that the kernel deletes it with the
// socket. Several tracers may run.
func (t *Tracer) install() error {
	t.table = fmt.Sprintf("%s-%d", TableName, t.own.PID())
	family := t.config.family()
	var b socket.Batch
	b.Add(unix.NFT_MSG_NEWTABLE, netlink.Create, family, func(e *attr.Encoder) {
		e.String(unix.NFTA_TABLE_NAME, t.table)
		e.Uint32(unix.NFTA_TABLE_FLAGS, tableOwned)
	})
	for _, ch := range t.config.chains() {
		b.AddChain(family, t.table, ch.name, &ch.Hook)
		for _, r := range ch.rules {
			b.AddRule(family, t.table, ch.name, r.comment, r.expressions...)
		}
	}
	if err := b.Commit(t.own, nil); err != nil {
		return fmt.Errorf("add table %s: %w", t.table, err)
	}
	return nil
}
