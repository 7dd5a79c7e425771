package ruleset

import (
	"runtime"
	"testing"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"kube-vmap/integration/lab/labtest"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
)

// machine is a network namespace with nothing in it, and our sockets there.
type machine struct {
	t      testing.TB
	ns     netns.NsHandle
	kernel *kernel.Kernel
}

// newMachine makes a machine that ends with the test.
func newMachine(t testing.TB) *machine {
	t.Helper()
	labtest.Require(t)
	m := &machine{t: t, ns: netns.None()}
	err := aside(func() (err error) {
		if err = unix.Unshare(unix.CLONE_NEWNET); err == nil {
			m.ns, err = netns.Get()
		}
		return err
	})
	if err != nil {
		t.Fatalf("make network namespace: %v", err)
	}
	t.Cleanup(func() { m.ns.Close() })
	m.kernel = m.open()
	return m
}

// open gives the machine one more program with sockets to nf_tables.
func (m *machine) open() *kernel.Kernel {
	m.t.Helper()
	k, err := kernel.Open(kernel.Config{NetNS: int(m.ns)})
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { k.Close() })
	return k
}

// do runs fn with its thread in the machine's namespace.
func (m *machine) do(fn func() error) error {
	return aside(func() error {
		if err := netns.Set(m.ns); err != nil {
			return err
		}
		return fn()
	})
}

// aside runs fn on a thread that it may put into another namespace: nobody uses
// the thread afterwards, since it stays locked to a goroutine that ends.
func aside(fn func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		done <- fn()
	}()
	return <-done
}

// apply gives the kernel a batch that it must take.
func (m *machine) apply(b nft.Batch) nft.Applied {
	m.t.Helper()
	a, err := m.kernel.Apply(b)
	if err != nil {
		m.t.Fatalf("apply: %v", err)
	}
	return a
}

// read is what the kernel holds in our tables.
func (m *machine) read() nft.Tables {
	m.t.Helper()
	tables, err := m.kernel.Read()
	if err != nil {
		m.t.Fatalf("read: %v", err)
	}
	return tables
}
