"""LongBench V1's 21 subsets: prompt format, longest answer, metric (arXiv 2308.14508, its tables of tasks and metrics).

The formats are equivalent to the official ones, not identical: the same parts in the same order (instruction, context,
instruction again, question, the cue that the answer follows), in this project's words. For the official wording give
LongBench's own `dataset2prompt.json` as templates.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Subset:
    """template: with {context} and, where there is one, {input}. metric: in METRICS. max_new_tokens: the official limit.

    examples: the prompt is a row of examples, so it is continued as it is, without a chat template. first_line: only
    the answer's first line is scored. stop: strings that end the answer, once something was said.
    """

    template: str
    metric: str
    max_new_tokens: int
    examples: bool = False
    first_line: bool = False
    stop: tuple[str, ...] = ()


def _twice(first: str, again: str, context: str, cue: str) -> str:
    """Instruction, context, instruction again, question and cue."""
    return f"{first}\n\n{context}\n\n{again}\n\n{cue}"


_SHORT = "Reply with a short phrase wherever one is enough, and explain nothing."
_BARE = "Reply with nothing but the answer itself."
_UNANSWERABLE = (
    'Where it is a yes/no question, reply "yes" or "no"; where the article does not tell, reply "unanswerable".'
)
_QUESTION = "Question: {input}\nAnswer:"
_PASSAGES = _twice(
    f"Use the passages below to answer a question. {_BARE}",
    f"Use the passages above to answer this question. {_BARE}",
    "These are the passages.\n{context}",
    _QUESTION,
)

SUBSETS: dict[str, Subset] = {
    "narrativeqa": Subset(
        _twice(
            f"Below is a story, a novel's or a film script's text, followed by a question about it. {_SHORT}",
            f"The story is over; now the question about it. {_SHORT}",
            "Story: {context}",
            "Question: {input}\n\nAnswer:",
        ),
        "qa_f1",
        128,
    ),
    "qasper": Subset(
        _twice(
            f"Below is a research article, followed by a question about it. {_SHORT} {_UNANSWERABLE}",
            f"Now the question about this article. {_SHORT} {_UNANSWERABLE}",
            "Article: {context}",
            "Question: {input}\n\nAnswer:",
        ),
        "qa_f1",
        128,
    ),
    "multifieldqa_en": Subset(
        _twice(
            "Here is a text; a question about it follows, to be answered in few words.",
            f"Now the question about this text. {_BARE}",
            "{context}",
            _QUESTION,
        ),
        "qa_f1",
        64,
    ),
    "multifieldqa_zh": Subset(
        _twice("请先读下面的文字，再用中文简短作答。", "请根据以上文字回答问题，只写出答案本身。", "{context}", "问题：{input}\n回答："),
        "qa_f1_zh",
        64,
    ),
    "hotpotqa": Subset(_PASSAGES, "qa_f1", 32),
    "2wikimqa": Subset(_PASSAGES, "qa_f1", 32),
    "musique": Subset(_PASSAGES, "qa_f1", 32),
    "dureader": Subset(
        _twice("请根据下面的文章回答一个问题。", "请根据上面的文章回答这个问题。", "文章：{context}", "问题：{input}\n回答："), "rouge_l_zh", 128
    ),
    "gov_report": Subset(
        _twice(
            "Below is a report of a government office. Sum it up on one page.",
            "Sum up this report on one page.",
            "Report:\n{context}",
            "Summary:",
        ),
        "rouge_l",
        512,
    ),
    "qmsum": Subset(
        _twice(
            "Below is what was said in a meeting, followed by a request about it. Meet the request in one or several sentences.",
            "Now the request about this meeting, to be met in one or several sentences.",
            "Transcript:\n{context}",
            "Query: {input}\nAnswer:",
        ),
        "rouge_l",
        512,
    ),
    "multi_news": Subset(
        _twice("Below are news texts. Sum all of them up on one page.", "Sum up all of this news on one page.", "News:\n{context}", "Summary:"),
        "rouge_l",
        512,
    ),
    "vcsum": Subset("请读下面的会议记录，然后用一段话概括会议内容。\n会议记录：\n{context}\n\n会议总结：", "rouge_l_zh", 512),
    "trec": Subset(
        "Say of what type the last question is. Questions with their types come first, as examples.\n\n{context}\n{input}",
        "classification",
        64,
        examples=True,
        first_line=True,
    ),
    "triviaqa": Subset(
        f"Answer the last question from its passage. {_BARE} Examples come first.\n\n{{context}}\n\n{{input}}",
        "qa_f1",
        32,
        examples=True,
        first_line=True,
    ),
    "samsum": Subset(
        "Sum up the last dialogue in a few short sentences. Examples come first.\n\n{context}\n\n{input}",
        "rouge_l",
        128,
        examples=True,
        first_line=True,
        stop=("\n",),
    ),
    "lsht": Subset("请给出最后一条新闻的类别。前面是一些例子。\n\n{context}\n{input}", "classification", 64, examples=True, first_line=True),
    "passage_count": Subset(
        _twice(
            "Below are paragraphs from Wikipedia, some of them more than once. Find out how many different paragraphs there are.",
            "How many different paragraphs are there, repeated ones counted once? Reply with the number only, such as 1, 2, 3.",
            "{context}",
            "The number of different paragraphs is: ",
        ),
        "count",
        32,
    ),
    "passage_retrieval_en": Subset(
        _twice(
            "Below are 30 paragraphs from Wikipedia and an abstract of one of them. Find the paragraph that it belongs to.",
            'Which paragraph is it an abstract of? Reply in the form "Paragraph 1", "Paragraph 2" and so on.',
            "{context}\n\nThis is the abstract.\n\n{input}",
            "The answer is: ",
        ),
        "retrieval",
        32,
    ),
    "passage_retrieval_zh": Subset(
        _twice(
            "下面有若干段文字，还有其中一段的摘要。请找出摘要对应的段落。",
            '这份摘要出自哪一段？请按"段落1"、"段落2"这样的格式作答。',
            "{context}\n\n摘要如下\n\n{input}",
            "答案是：",
        ),
        "retrieval",
        32,
    ),
    "lcc": Subset("Continue the code below with its next line.\n{context}Next line of code:\n", "code_similarity", 64, examples=True),
    "repobench-p": Subset(
        "Continue the code below with its next line.\n{context}{input}Next line of code:\n", "code_similarity", 64, examples=True
    ),
}  # fmt: skip
