package wire_test

import (
	"fmt"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/wire"
)

// A batch is encoded as one transaction. What the kernel refuses is explained by the
// sequence number of the message.
func ExampleEncode() {
	batch := nft.Batch{
		nft.AddTable{Family: model.IPv4},
		nft.AddChain{Chain: nft.ChainID{Kind: nft.ChainBalance, N: 2}},
	}
	encoded, err := wire.Encode(batch)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(encoded.Messages, "messages, the first and the last of which begin and end the transaction")
	fmt.Println(encoded.Explain(2, 0, unix.ENOENT, ""))
	// Output:
	// 4 messages, the first and the last of which begin and end the transaction
	// add chain ip kube-vmap lb-2: no such file or directory
}
