package livenode

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kube-vmap/nft/attr"
)

func TestHooksAreDecoded(t *testing.T) {
	encode := func(chain bool) []byte {
		var e attr.Encoder
		e.NetfilterHeader(unix.AF_INET, 0)
		e.Uint32(hookNumber, unix.NF_INET_PRE_ROUTING)
		e.Uint32(hookPriority, 0xffffff9c) // -100
		e.String(hookFunction, "nft_nat_do_chain")
		e.String(hookModule, "nft_chain_nat")
		if chain {
			e.Nested(hookChainInfo, func() {
				e.Nested(chainInfoDesc, func() {
					e.String(chainTable, "kube-vmap")
					e.String(chainName, "nat-prerouting")
				})
			})
		}
		return e.Bytes
	}
	const plain = "-100 nft_nat_do_chain [nft_chain_nat]"
	for want, message := range map[string][]byte{
		plain: encode(false), plain + " chain nat-prerouting of table kube-vmap": encode(true),
	} {
		if got, err := hookText(message); err != nil || got != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	if _, err := hookText([]byte{2}); err == nil {
		t.Error("a message without a header")
	}
}

// TestHooksOfThisKernelAreListedOrNamedAsMissing has what the kernel here can do.
func TestHooksOfThisKernelAreListedOrNamedAsMissing(t *testing.T) {
	list, err := hookTexts(unix.AF_INET)
	if err != nil && !errors.Is(err, errNoHooks) && !errors.Is(err, unix.EPERM) {
		t.Errorf("%q, %v", list, err)
	}
	for _, text := range list {
		if len(strings.Fields(text)) < 3 {
			t.Errorf("%q", text)
		}
	}
	var text strings.Builder
	if err := WriteNetwork(&text); err != nil || !strings.Contains(text.String(), "# IPv6 hooks\n") {
		t.Errorf("%v: %s", err, text.String())
	}
}
