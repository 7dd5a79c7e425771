package config

import (
	"slices"
	"testing"
)

func TestCompareReturnsOtherSettingsOfTheRules(t *testing.T) {
	running := []byte(written(t, load(t, "--cluster-cidr=10.244.0.0/16,fd00:10:244::/56", "--hostname-override=worker-1",
		"--nodeport-addresses=192.0.2.0/24,2001:db8::/64", "--masquerade-all", "-v=4", "--conntrack-min=7")))
	for _, tc := range []struct {
		args []string
		want []string
	}{
		{nil, []string{
			"clusterCIDR: 10.244.0.0/16,fd00:10:244::/56", "hostnameOverride: worker-1", "nftables.masqueradeAll: true",
			"nodePortAddresses: [192.0.2.0/24 2001:db8::/64]",
		}},
		{[]string{"--cluster-cidr=10.244.0.0/16,fd00:10:244::/56", "--hostname-override=worker-1", "--nodeport-addresses=192.0.2.0/24,2001:db8::/64"}, []string{"nftables.masqueradeAll: true"}},
		{[]string{"--cluster-cidr=10.244.0.0/16,fd00:10:244::/56", "--hostname-override=worker-1", "--nodeport-addresses=192.0.2.0/24,2001:db8::/64", "--masquerade-all"}, nil},
	} {
		if got, err := load(t, tc.args...).Compare(running); err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%q: %q, %v; want %q", tc.args, got, err, tc.want)
		}
	}
	if _, err := load(t).Compare([]byte("- no\n\tmapping")); err == nil {
		t.Error("what is no configuration is taken for one")
	}
}
