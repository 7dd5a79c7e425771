package wire

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
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
		"an element that was read from the kernel": {
			Error{Op: nft.DeleteElements{Set: id, Elements: all}, Element: &nft.Element{Key: el.Key, Comment: "shop/web"}, Errno: unix.ENOENT},
			"service shop/web: delete element ip6 kube-vmap endpoints-2 " +
				"{ fd00:10:96::1 . udp . 53 }: no such file or directory",
		},
		"elements to delete without an offset": {
			Error{Op: nft.DeleteElements{Set: id, Elements: all}, Errno: unix.ENOENT},
			"delete elements ip6 kube-vmap endpoints-2: no such file or directory",
		},
		"endpoints of a full map": {
			Error{Op: nft.AddFrontends{Set: id}, Errno: unix.ENFILE},
			"add elements ip6 kube-vmap endpoints-2: the set is full",
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

func TestCauseFollowsFromErrno(t *testing.T) {
	for errno, want := range map[syscall.Errno]Cause{
		unix.ENOENT: CauseState, unix.EEXIST: CauseState, unix.EBUSY: CauseState, unix.ERESTART: CauseState,
		unix.ENOMEM: CauseMemory, unix.ENOBUFS: CauseMemory, unix.EINTR: CauseMemory, unix.EAGAIN: CauseMemory,
		unix.ENFILE: CauseFull, unix.EPERM: CausePermission, unix.EACCES: CausePermission,
		unix.EOPNOTSUPP: CauseObject, unix.EINVAL: CauseObject,
	} {
		refusal := &Error{Errno: errno}
		if got := refusal.Cause(); got != want {
			t.Errorf("the cause of %v is %d, want %d", errno, got, want)
		}
		if got := IsOutOfMemory(fmt.Errorf("step 2: %w", refusal)); got != (want == CauseMemory) {
			t.Errorf("%v is for lack of memory: %t", errno, got)
		}
	}
	if IsOutOfMemory(unix.ENOMEM) {
		t.Error("an errno that is no refusal of a batch is for lack of memory")
	}
}

func TestOffendersMayHaveCausedTheRefusal(t *testing.T) {
	web := model.ServicePortName{ServiceName: model.ServiceName{Namespace: "shop", Name: "web"}}
	refusal := func(op nft.Op, errno syscall.Errno) *Error { return &Error{Op: op, Service: web, Errno: errno} }
	added, deleted := nft.AddElements{}, nft.DeleteElements{}
	for name, tt := range map[string]struct {
		first  *Error
		others []*Error
		want   []int // 0 is the first, 1 the first of the others
	}{
		"element that the kernel does not support":  {refusal(added, unix.EINVAL), nil, []int{0}},
		"endpoint that the kernel does not support": {refusal(nft.AddFrontends{}, unix.EINVAL), nil, []int{0}},
		"element that exists":                       {refusal(added, unix.EEXIST), nil, []int{0}},
		"element of a full set":                     {refusal(added, unix.ENFILE), nil, []int{0}},
		"element without memory":                    {refusal(added, unix.ENOMEM), nil, nil},
		"element without permission":                {refusal(added, unix.EPERM), nil, nil},
		"element to delete":                         {refusal(deleted, unix.EINVAL), nil, nil},
		"element of no Service":                     {&Error{Op: added, Errno: unix.EINVAL}, nil, nil},
		"chain":                                     {&Error{Op: nft.AddChain{}, Errno: unix.EINVAL}, nil, nil},
		"others that follow from it":                {refusal(added, unix.ENFILE), []*Error{refusal(added, unix.ENFILE), refusal(added, unix.ENOENT)}, []int{0}},
		"others with causes of their own": {
			refusal(deleted, unix.ENOENT),
			[]*Error{refusal(added, unix.EINVAL), refusal(deleted, unix.EINVAL), {Op: added, Errno: unix.EINVAL}, refusal(added, unix.EINVAL)},
			[]int{1, 4},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tt.first.Others = tt.others
			all := append([]*Error{tt.first}, tt.others...)
			var got []int
			for _, offender := range tt.first.Offenders() {
				got = append(got, slices.Index(all, offender))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("the offenders are %v, want %v", got, tt.want)
			}
		})
	}
}
