"""Small real tokenizers for the tests: byte-level BPE and sentencepiece-like unigram, trained on the spot."""

import json

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

CORPUS = [
    "The river was high. Nobody crossed it that day, and the ferry stayed at its rope.\n",
    '"Come in," she said. "You are late." Then the door closed; the lamp went out.\n\n',
    "Wait... what? Really?! Yes! I did not know that.\n",
    "1. Take the pan.\n2. Heat it to 180 degrees.\n3. Add 2.5 g of salt, i.e. a pinch.\n",
    "Der Hund lief durch den Garten. Er bellte, z. B. den Briefträger an.\n",
    "def area(self):\n    return self.width * self.height\n",
    "今天下雨。我们在家里读书。你呢？\n",
]


def byte_level() -> PreTrainedTokenizerFast:
    """Byte-level BPE with 420 entries: Chinese and umlauts are split into bytes, full stops and newlines merge."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=420, special_tokens=["<|end|>"], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>")


def unigram() -> PreTrainedTokenizerFast:
    """Unigram over "▁" pieces with byte fallback, whose decoder drops the first space, as sentencepiece models do."""
    trained = Tokenizer(models.Unigram())
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=400, unk_token="<unk>", special_tokens=["<unk>"], show_progress=False)
    trained.train_from_iterator(CORPUS, trainer)
    pieces = [tuple(piece) for piece in json.loads(trained.to_str())["model"]["vocab"] if piece[0] != "<unk>"]
    head = [("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0), *((f"<0x{byte:02X}>", -12.0) for byte in range(256))]
    tokenizer = Tokenizer(models.Unigram(head + pieces, unk_id=0, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        clean_up_tokenization_spaces=False,
    )
