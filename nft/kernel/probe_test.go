package kernel

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/wire"
)

func TestProbeErrorNamesTheMissingPart(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want string
	}{
		{&wire.Error{Op: nft.AddRule{}, Expression: "numgen", Errno: unix.ENOENT}, "expression numgen (CONFIG_NFT_NUMGEN)"},
		{&wire.Error{Op: nft.AddTable{Family: model.IPv6}, Errno: unix.EAFNOSUPPORT}, "family ip6 (CONFIG_NF_TABLES_IPV6)"},
		{&wire.Error{Op: nft.DeleteChain{Name: "ep-1"}, Errno: unix.EBUSY}, "628bd3e49cba"},
		{&wire.Error{Errno: unix.EOPNOTSUPP}, "nf_tables (CONFIG_NF_TABLES)"},
		{&wire.Error{Errno: unix.EPERM}, "run as root or with CAP_NET_ADMIN"},
		{errors.New("no socket"), "no socket"},
	} {
		got := explainProbe(tc.err).Error()
		if !strings.Contains(got, tc.want) || strings.Contains(got, "\n") {
			t.Errorf("of %v: %q, want one line with %q", tc.err, got, tc.want)
		}
	}
	if err := explainProbe(nil); err != nil {
		t.Errorf("of a kernel that lacks nothing: %v", err)
	}
}

func TestKernelWithoutLabelsIsNoError(t *testing.T) {
	for name, tc := range map[string]struct {
		err       error
		supported bool
		want      string // part of the error
	}{
		"accepted":          {nil, true, ""},
		"without labels":    {&wire.Error{Op: nft.AddRule{}, Expression: "ct", Errno: unix.EOPNOTSUPP}, false, ""},
		"without ct at all": {&wire.Error{Op: nft.AddRule{}, Expression: "ct", Errno: unix.ENOENT}, false, "CONFIG_NFT_CT"},
		"without nf_tables": {&wire.Error{Errno: unix.EOPNOTSUPP}, false, "CONFIG_NF_TABLES"},
		"forbidden":         {&wire.Error{Errno: unix.EPERM}, false, "run as root"},
	} {
		supported, err := labelsSupported(tc.err)
		if supported != tc.supported || (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %t, %v, want %t and %q", name, supported, err, tc.supported, tc.want)
		}
	}
}
