package wire

import (
	"errors"
	"io/fs"
	"net/netip"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
)

func TestErrorText(t *testing.T) {
	id := nft.SetID{Family: model.IPv6, Kind: nft.SetEndpoints, Slot: 2}
	dns := model.ServicePortName{
		ServiceName: model.ServiceName{Namespace: "kube-system", Name: "kube-dns"}, Port: "dns", Protocol: model.UDP,
	}
	el := nft.Element{
		Key:     nft.Key{Addr: netip.MustParseAddr("fd00:10:96::1"), Protocol: model.UDP, Port: 53},
		Value:   nft.Value{Endpoint: netip.MustParseAddrPort("[fd00:10:244::7]:5353")},
		Service: &dns,
	}
	all := []nft.Element{el, el}
	for name, tt := range map[string]struct {
		err  Error
		want string
	}{
		"an element of a Service": {
			Error{Op: nft.AddElements{Set: id, Elements: all}, Service: dns, Element: &el, Errno: unix.EEXIST},
			"service kube-system/kube-dns:dns: add element ip6 kube-vmap endpoints-2 " +
				"{ fd00:10:96::1 . udp . 53 : fd00:10:244::7 . 5353 }: file exists",
		},
		"an element to delete": {
			Error{Op: nft.DeleteElements{Set: id, Elements: all}, Service: dns, Element: &el, Errno: unix.ENOENT},
			"service kube-system/kube-dns:dns: delete element ip6 kube-vmap endpoints-2 " +
				"{ fd00:10:96::1 . udp . 53 }: no such file or directory",
		},
		"elements without an offset": {
			Error{Op: nft.AddElements{Set: id, Elements: all}, Errno: unix.ENOENT},
			"add elements ip6 kube-vmap endpoints-2: no such file or directory",
		},
		"a chain, with the kernel's own words": {
			Error{Op: nft.DeleteChain{Family: model.IPv4, Name: "lb-3"}, Errno: unix.EBUSY, Message: "in use"},
			"delete chain ip kube-vmap lb-3: device or resource busy (in use)",
		},
		"counted connections": {
			Error{Op: nft.DeleteConnections{Family: model.IPv4}, Errno: unix.ENOENT},
			"delete elements ip kube-vmap connections: no such file or directory",
		},
		"the batch": {Error{Errno: unix.EPERM}, "batch: operation not permitted"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tt.err.Error(); got != tt.want {
				t.Errorf("it reads\n\t%s\nwant\n\t%s", got, tt.want)
			}
		})
	}
}

func TestErrorIs(t *testing.T) {
	type meanings struct{ notExist, exist, permission bool }
	for errno, want := range map[syscall.Errno]meanings{
		unix.ENOENT: {notExist: true}, unix.EEXIST: {exist: true},
		unix.EPERM: {permission: true}, unix.EACCES: {permission: true}, unix.EBUSY: {},
	} {
		err := error(&Error{Errno: errno})
		got := meanings{errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrExist), errors.Is(err, fs.ErrPermission)}
		if got != want {
			t.Errorf("%v is %+v, want %+v", errno, got, want)
		}
		if !errors.Is(err, errno) {
			t.Errorf("%v is not itself", errno)
		}
	}
}
