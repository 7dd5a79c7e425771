package kubeproxy

import (
	"slices"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/attr"
)

// The marker is a table with the name of kube-proxy's and one chain without a hook. Calico's
// Felix looks for any chain in that table to find out whether kube-proxy is in nftables
// mode, and restarts in iptables mode when there is none any more (tigera/operator 4389).
const (
	markerChain   = "kube-vmap-marker"
	markerComment = "left by kube-vmap for programs that look for kube-proxy"
)

// AddMarker returns the changes that add the marker in a family. If it exists already nothing
// happens, and a table of kube-proxy only gets one more chain.
func AddMarker(f model.Family) nft.Batch {
	name := nft.FamilyName(f) + " " + tableName
	return nft.Batch{
		change("add table "+name, unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, nft.FamilyNumber(f), markerTable),
		change("add chain "+name+" "+markerChain, unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE, nft.FamilyNumber(f),
			markerChainOf),
	}
}

func markerTable(e *attr.Encoder) {
	e.String(unix.NFTA_TABLE_NAME, tableName)
	e.Comment(attrTableUserdata, markerComment)
}

func markerChainOf(e *attr.Encoder) {
	e.String(unix.NFTA_CHAIN_TABLE, tableName)
	e.String(unix.NFTA_CHAIN_NAME, markerChain)
}

// DeleteMarkers returns the changes that delete the markers which were found. Like those of
// [Found.Resume] they are valid in this state of nf_tables only: the table may be a running
// kube-proxy's a moment later.
func (f *Found) DeleteMarkers() nft.Batch {
	var b nft.Batch
	for _, family := range f.Markers {
		text := "delete table " + nft.FamilyName(family) + " " + tableName
		b = append(b, change(text, unix.NFT_MSG_DELTABLE, 0, nft.FamilyNumber(family), func(e *attr.Encoder) {
			e.String(unix.NFTA_TABLE_NAME, tableName)
		}))
	}
	return f.atGeneration(b)
}

// isMarker reports whether these chains of the table of nftables mode are only the marker.
// Its comment is no sign of that: the table keeps it when kube-proxy adds its own chains.
func isMarker(all map[string]bool) bool {
	base, exists := all[markerChain]
	return exists && !base && len(all) == 1
}

// HasMarker reports whether a family has the marker.
func (f *Found) HasMarker(family model.Family) bool { return slices.Contains(f.Markers, family) }
