package trace

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/nft/attr"
	"kube-vmap/nft/kernel/dump"
	"kube-vmap/nft/kernel/socket"
)

// tableOwned is NFT_TABLE_F_OWNER (include/uapi/linux/netfilter/nf_tables.h).
const tableOwned = 0x2

// maxInstallTries is how often the installation is tried because another program removed a
// stale table first.
const maxInstallTries = 5

// install adds the tracer's table, owned by the socket if the kernel supports that, and
// removes stale tables of other tracers.
func (t *Tracer) install() (err error) {
	owned := true
	for range maxInstallTries {
		err = t.tryInstall(owned)
		switch {
		case err == nil:
			return nil
		case owned && (errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL)):
			owned = false
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	return err
}

func (t *Tracer) tryInstall(owned bool) (err error) {
	if t.own != nil {
		_ = t.own.Close() // of the last try; more answers may be waiting there
	}
	if t.own, err = socket.Open(t.config.NetNS); err != nil {
		return err
	}
	var b socket.Batch
	t.reader = dump.NewReader(t.own)
	if err := t.removeStaleTables(&b); err != nil {
		return err
	}
	name := TableName
	if owned { // several tracers may run
		name = fmt.Sprintf("%s-%d", TableName, t.own.PID())
	}
	addTable(&b, &t.config, name, owned)
	if err := b.Commit(t.own, nil); err != nil {
		return fmt.Errorf("add table %s: %w", name, err)
	}
	t.table = name
	return nil
}

// uninstall removes the tracer's table.
func (t *Tracer) uninstall() error {
	var b socket.Batch
	deleteTable(&b, t.config.family(), t.table)
	if err := b.Commit(t.own, nil); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("remove table %s: %w", t.table, err)
	}
	return nil
}

// addTable adds the table with its chains and rules.
func addTable(b *socket.Batch, c *Config, name string, owned bool) {
	b.Add(unix.NFT_MSG_NEWTABLE, netlink.Create, c.family(), func(e *attr.Encoder) {
		e.String(unix.NFTA_TABLE_NAME, name)
		if owned {
			e.Uint32(unix.NFTA_TABLE_FLAGS, tableOwned)
		}
	})
	for _, ch := range c.chains() {
		b.AddChain(c.family(), name, ch.name, &ch.Hook)
		for _, r := range ch.rules {
			b.AddRule(c.family(), name, ch.name, r.comment, r.expressions...)
		}
	}
}

// deleteTable deletes a table with all that is in it.
func deleteTable(b *socket.Batch, family uint8, name string) {
	b.Add(unix.NFT_MSG_DELTABLE, 0, family, func(e *attr.Encoder) { e.String(unix.NFTA_TABLE_NAME, name) })
}

// removeStaleTables deletes the tables of tracers that have ended: those that no socket
// owns. On a kernel without owners it may be that of a running tracer, which stops
// receiving events then.
func (t *Tracer) removeStaleTables(b *socket.Batch) error {
	tables, err := t.reader.Tables("")
	for _, other := range tables {
		if !other.Owned && (other.Name == TableName || strings.HasPrefix(other.Name, TableName+"-")) {
			deleteTable(b, dump.FamilyNumber(other.Family), other.Name)
		}
	}
	return err
}
