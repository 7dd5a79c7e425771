package wire

import (
	"errors"
	"fmt"
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
	add, remove := nft.AddElements{Set: id, Elements: []nft.Element{el, el}}, nft.DeleteElements{Set: id, Elements: []nft.Element{el, el}}
	for want, err := range map[string]Error{
		"service kube-system/kube-dns:dns: add element ip6 kube-vmap endpoints-2 " +
			"{ fd00:10:96::1 . udp . 53 : fd00:10:244::7 . 5353 }: file exists": {Op: add, Service: dns, Element: &el, Errno: unix.EEXIST},
		"service kube-system/kube-dns:dns: delete element ip6 kube-vmap endpoints-2 " +
			"{ fd00:10:96::1 . udp . 53 }: no such file or directory": {Op: remove, Service: dns, Element: &el, Errno: unix.ENOENT},
		"service shop/web: delete element ip6 kube-vmap endpoints-2 { fd00:10:96::1 . udp . 53 }: no such file or directory": {
			Op: remove, Element: &nft.Element{Key: el.Key, Comment: "shop/web"}, Errno: unix.ENOENT, // of an element that was read
		},
		"add elements ip6 kube-vmap endpoints-2: no such file or directory":    {Op: add, Errno: unix.ENOENT}, // without an offset
		"delete elements ip6 kube-vmap endpoints-2: no such file or directory": {Op: remove, Errno: unix.ENOENT},
		"delete chain ip kube-vmap lb-3: device or resource busy (in use)":     {Op: nft.DeleteChain{Name: "lb-3"}, Errno: unix.EBUSY, Message: "in use"},
		"add elements ip6 kube-vmap endpoints-2: the set is full":              {Op: nft.AddFrontends{Set: id}, Errno: unix.ENFILE},
		"delete elements ip kube-vmap connections: no such file or directory":  {Op: nft.DeleteConnections{}, Errno: unix.ENOENT},
		"batch: operation not permitted":                                       {Errno: unix.EPERM},
	} {
		if got := err.Error(); got != want {
			t.Errorf("it reads\n\t%s\nwant\n\t%s", got, want)
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
		if got := refusal.Cause(); got != want || !errors.Is(refusal, errno) {
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
