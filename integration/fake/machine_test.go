// Package fake proves the fake kernel of nft/kernel/kerneltest against the real
// one, and runs on the real one the scripts that package sync runs on the fake.
package fake

import (
	"runtime"
	"testing"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"kube-vmap/integration/lab/labtest"
	"kube-vmap/nft/kernel"
)

// realKernel opens the nf_tables of a fresh network namespace, which ends with
// the test.
func realKernel(t testing.TB) *kernel.Kernel {
	t.Helper()
	labtest.Require(t)
	space := netns.None()
	made := make(chan error)
	go func() {
		// Nobody uses the thread afterwards: it stays locked and ends with this
		// goroutine.
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			space, err = netns.Get()
		}
		made <- err
	}()
	if err := <-made; err != nil {
		t.Fatalf("make network namespace: %v", err)
	}
	t.Cleanup(func() { space.Close() })
	k, err := kernel.Open(kernel.Config{NetNS: int(space)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	return k
}
