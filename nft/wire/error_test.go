package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/attr"
	"kube-vmap/nft/nfttest"
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

// expressionsOf lists the expressions of the rules of a batch, with the family,
// the message and the offset that an error would name.
func expressionsOf(t *testing.T, e *Encoded) map[string][2]uint32 {
	t.Helper()
	out := map[string][2]uint32{}
	for _, m := range split(t, e.Bytes) {
		if m.kind != unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWRULE {
			continue
		}
		for _, a := range attrs(t, m.raw, attr.MessageHeaderLen+attr.BodyHeaderLen, len(m.raw)) {
			if a.kind&^unix.NLA_F_NESTED != unix.NFTA_RULE_EXPRESSIONS {
				continue
			}
			for _, x := range attrs(t, m.raw, a.offset+attr.HeaderLen, a.offset+attr.HeaderLen+len(a.value)) {
				out[expressionAt(m.raw, x.offset)] = [...]uint32{m.sequence, uint32(x.offset)}
			}
		}
	}
	return out
}

func TestSampleHasEveryExpression(t *testing.T) {
	_, all := nft.Adopt(sampleConfig, nft.Tables{}, sample(50))
	tried, used := encoded(t, nft.Sample(sampleConfig)), encoded(t, all)
	have := expressionsOf(t, tried)
	for name := range expressionsOf(t, used) {
		if _, tried := have[name]; !tried || name == "" {
			t.Errorf("expression %q is used and not tried", name)
		}
	}
}

func TestMissingNamesTheKernelOption(t *testing.T) {
	batch := nft.Sample(nft.Config{MasqueradeMark: nft.DefaultMasqueradeMark})
	e := encoded(t, batch)
	found := expressionsOf(t, e)
	for name, option := range map[string]string{
		"numgen": "numgen (CONFIG_NFT_NUMGEN)", "nat": "nat (CONFIG_NFT_NAT)", "masq": "masq (CONFIG_NFT_MASQ)",
		"reject": "reject (CONFIG_NFT_REJECT)", "ct": "ct (CONFIG_NFT_CT)", "lookup": "lookup",
		"fib": "fib (CONFIG_NFT_FIB)", "hash": "hash (CONFIG_NFT_HASH)", "dynset": "dynset", "objref": "objref", "payload": "payload",
	} {
		at, used := found[name]
		if !used {
			t.Errorf("no rule has the expression %s", name)
			continue
		}
		err := e.Explain(at[0], at[1], unix.ENOENT, "")
		if got, want := err.Missing(), "the nf_tables expression "+option; got != want {
			t.Errorf("without %s the kernel lacks %q, want %q", name, got, want)
		}
	}
	for _, tt := range []struct {
		op   nft.Op
		want string
	}{
		{nil, "nf_tables (CONFIG_NF_TABLES)"},
		{nft.AddTable{Family: model.IPv6}, "nf_tables for family ip6 (CONFIG_NF_TABLES_IPV6)"},
		{nft.AddTable{Family: model.IPv4}, "nf_tables for family ip (CONFIG_NF_TABLES_IPV4)"},
		{nft.AddChain{Chain: nft.ChainID{Kind: nft.ChainNATOutput}}, "chains of type nat (CONFIG_NF_NAT)"},
	} {
		if got := (&Error{Op: tt.op, Errno: unix.EOPNOTSUPP}).Missing(); got != tt.want {
			t.Errorf("refusing %v the kernel lacks %q, want %q", tt.op, got, tt.want)
		}
	}
	chain := nft.AddChain{Chain: nft.ChainID{Kind: nft.ChainFilterInput}}
	if got := (&Error{Op: chain, Errno: unix.EINVAL}).Missing(); !strings.Contains(got, chain.String()) {
		t.Errorf("refusing a chain the kernel lacks %q, which does not name it", got)
	}
}

func TestOffsetOutsideExpressions(t *testing.T) {
	e := encoded(t, nft.Sample(nft.Config{MasqueradeMark: nft.DefaultMasqueradeMark}))
	for _, m := range split(t, e.Bytes) {
		if m.kind&0xff != unix.NFT_MSG_NEWRULE {
			continue
		}
		for _, offset := range []int{-1, 0, attr.MessageHeaderLen, attr.MessageHeaderLen + attr.BodyHeaderLen, len(m.raw) - 1, len(m.raw), len(m.raw) + 100} {
			if got := expressionAt(m.raw, offset); got != "" {
				t.Errorf("offset %d of a rule of %d bytes is of expression %q", offset, binary.NativeEndian.Uint32(m.raw), got)
			}
		}
	}
}

// sampleConfig detects pods in both families, and has every option.
var sampleConfig = nft.Config{
	MasqueradeMark:   nft.DefaultMasqueradeMark,
	DropInvalid:      true,
	CountConnections: true,
	PassiveHealth:    true,
	Pods: [...]netip.Prefix{
		model.IPv4: netip.MustParsePrefix("10.244.0.0/16"),
		model.IPv6: netip.MustParsePrefix("fd00:10:244::/56"),
	},
	PingTo: [...]netip.Addr{model.IPv4: netip.MustParseAddr("192.0.2.1"), model.IPv6: netip.MustParseAddr("2001:db8::1")},
}

// sample is the change from nothing to n Services of every kind.
func sample(n int) nft.Change {
	return nft.Change{Set: nfttest.Frontends(n), ServiceCIDRs: &nfttest.ServiceCIDRs, NodeAddrs: &nfttest.NodeAddrs}
}

// load is the batch of a first load of n Services, and the resulting state.
func load(n int) (*nft.Ruleset, nft.Batch) { return nft.Adopt(sampleConfig, nft.Tables{}, sample(n)) }
